"""The working HTML of a control, the same in both themes: real links, forms, fields, drop-downs, a cookie form.

Owns attributes only. A theme passes `prefix`, the address of its episode's site, and its own class and style.
"""

from html import escape

from rmsweb.web.sites.pages import SLOW_PATH, Form, Item


def control(item: Item, prefix: str, attributes: str) -> str:
    """The element of an item; `attributes` are trusted (class, style)."""
    label = escape(item.label)
    name = f'form="{item.form}" name="{item.name}" aria-label="{label}" {attributes}'
    match item.kind:
        case "link":
            tab = ' target="_blank" rel="noopener"' if item.new_tab else ""
            return f'<a href="{escape(prefix + item.href)}"{tab} {attributes}>{label}</a>'
        case "button":
            return f'<button form="{item.form}" {attributes}>{label}</button>'
        case "text":
            return f"<span {attributes}>{label}</span>"
        case "input":
            own = f'placeholder="{label}" value="{escape(item.value)}" autocomplete="off" spellcheck="false"'
            return f'<input type="text" {name} {own}>'
        case "select":
            options = "".join(_option(option, option == item.value) for option in item.options)
            return f'<select {name} autocomplete="off"><option value="">{label}</option>{options}</select>'


def _option(option: str, selected: bool) -> str:
    return f"<option{' selected' if selected else ''}>{escape(option)}</option>"


def form(item: Form, prefix: str) -> str:
    """The form itself, without its controls: they name it by id."""
    hidden = "".join(f'<input type="hidden" name="{escape(k)}" value="{escape(v)}">' for k, v in item.hidden)
    ask = ""
    if item.confirm:
        question = item.confirm.replace("\\", "").replace("'", "")
        ask = f" onsubmit=\"return confirm('{escape(question)}')\""
    return f'<form id="{item.id}" method="{item.method}" action="{escape(prefix + item.action)}"{ask}>{hidden}</form>'


def cookie_forms(prefix: str) -> str:
    """The forms behind the two buttons of the cookie layer."""
    forms = (Form(f"cookies-{choice}", "/cookies", hidden=(("choice", choice),)) for choice in ("accept", "reject"))
    return "".join(form(item, prefix) for item in forms)


def late(content: str) -> str:
    """Content that a script puts where it stands when a slow request has come back; a text `loading` (id) goes then.

    A request, not a timer: a browser that waits for what is under way sees the same page every time, so that a replayed
    or resumed episode does not hang on milliseconds.
    """
    return (
        f'<template id="late">{content}</template><script>fetch("{SLOW_PATH}", {{cache: "no-store"}}).finally(() => {{'
        "const late = document.getElementById('late'); document.getElementById('loading').remove();"
        "late.parentNode.insertBefore(late.content, late);})</script>"
    )
