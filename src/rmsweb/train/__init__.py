"""The learner: tokenizer, processor, the tiny base model and its pretraining, sampling, supervised training.

    tokenizer   the tiny model's closed-vocabulary tokenizer
    processor   Qwen3-VL processors without torchvision
    tiny        the tiny Qwen3-VL: config, weights, the shipped checkpoint, fast vision
    draw        pages as pixels, from glyphs that Chromium drew
    canvas      random elements on the compact grid, and the truth about each
    queries     goals in words, and the rule for the right reply
    pages       synthetic tasks: a page, a goal, a reply
    batches     synthetic tasks as tensors
    reading     pretraining, first part: the vision tower reads every cell
    grounding   pretraining, second part: matching the goal, then whole replies
    pretrain    the `pretrain` stage: both parts, the record of the recipe
    probe       reading accuracy, drawn and in this machine's Chromium
    updates     one loop's optimizer, schedule, clipping and averages
    optimizer   Muon + AdamW, schedules
    sampling    one prefill, many replies
    local       LocalModel: the ChatModel in this process
    sft, rows   supervised training through TRL

torch, transformers and trl are imported inside the functions that use them.
"""
