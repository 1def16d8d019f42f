"""The learner: tokenizer, processor, the tiny base model and its pretraining, sampling, supervised training.

    tokenizer   the tiny model's closed-vocabulary tokenizer
    processor   Qwen3-VL processors without torchvision
    tiny        the tiny Qwen3-VL: config, weights, the shipped checkpoint, fast vision
    draw        pages as pixels, from glyphs that Chromium drew
    canvas      random elements on the compact grid, and the truth about each
    queries     goals in words, and the rule for the right reply
    pages       synthetic tasks: a page, a goal, a reply
    batches     synthetic tasks as tensors
    pretrain    vision stage, grounding stage, the `pretrain` stage
    probe       reading accuracy, drawn and in this machine's Chromium
    optimizer   Muon + AdamW, schedules
    sampling    one prefill, many replies
    local       LocalModel: the ChatModel in this process
    sft, rows   supervised training through TRL

torch, transformers and trl are imported inside the functions that use them.
"""
