"""Small web sites with tasks: shop, forum, booking, help centre, and a gym and a library that only exams name.

pages       what a page is before it has a look     world      what sites share; state, quest, looks
shop forum booking help gym library                 one site each: content, pages, forms, tasks, solution
compact_theme regular_theme markup                  the two looks over the same pages
catalogue checks server suite                       tasks, verdicts, HTTP, the Suite protocol
scripted                                            the known solution, for tests and the ceiling only
"""
