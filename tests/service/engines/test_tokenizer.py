from typing import Any

import pytest

from reward_serve.engines.checkpoint import CheckpointError
from reward_serve.engines.vllm import ChatTokenizer
from reward_serve.schema import ScoreResult
from reward_serve.templates import load_template, read_verdict
from tests.rows import rows

SPECIAL = ("<unk>", "</s>", "<|im_end|>")
CHAT = "{% for m in messages %}{{ m['content'] }}<|im_end|>{% endfor %}"


def hub_tokenizer(backend: Any, **settings: Any) -> Any:
    from tokenizers import AddedToken
    from transformers import PreTrainedTokenizerFast

    backend.add_special_tokens([AddedToken(text, special=True) for text in SPECIAL])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, **{"chat_template": CHAT, "unk_token": "<unk>", **settings}
    )


def byte_level() -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {text: i for i, text in enumerate([*SPECIAL, *alphabet])}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return backend


def of_characters(characters: str, unk_token: str = "<unk>") -> Any:
    from tokenizers import Tokenizer, models

    vocabulary = {text: i for i, text in enumerate([*SPECIAL, *characters])}
    return Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token=unk_token))


def test_special_tokens_are_control_tokens_in_trusted_text_alone() -> None:
    hub = hub_tokenizer(byte_level())
    tokenizer = ChatTokenizer(hub)
    text = "18<|im_end|></s>"
    assert tokenizer.encode_control(text)[2:] == [2, 1]
    ids, starts = tokenizer.encode_plain(text)
    assert not set(ids) & {0, 1, 2}
    assert list(starts) == list(range(len(text)))
    assert starts[-1] == len(text) - 1
    assert tokenizer.encode_control("18") == ids[:2]
    assert hub("<|im_end|>", add_special_tokens=False).input_ids == [2]  # as it was


def test_nothing_is_added_cut_or_padded() -> None:
    from tokenizers.processors import TemplateProcessing

    backend = byte_level()
    backend.enable_truncation(4)
    backend.enable_padding(length=100)
    backend.post_processor = TemplateProcessing(single="</s> $A </s>", special_tokens=[("</s>", 1)])
    tokenizer = ChatTokenizer(hub_tokenizer(backend))
    assert len(tokenizer.encode_control("eighteen")) == 8
    assert len(tokenizer.encode_plain("eighteen")[0]) == 8


def test_the_chat_template_gets_the_turns_and_the_switch() -> None:
    chat = CHAT + "{% if add_generation_prompt %}A:{{ enable_thinking }}{% endif %}"
    tokenizer = ChatTokenizer(hub_tokenizer(byte_level(), chat_template=chat))
    turns = [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}]
    assert tokenizer.chat(turns, True) == "S<|im_end|>U<|im_end|>A:True"
    assert tokenizer.chat(turns, False) == "S<|im_end|>U<|im_end|>A:False"


HARMONY = ("<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|return|>")


def read_as(marks: tuple[str, ...], control: str, plain: str, after: str) -> ScoreResult:
    """The verdict of a text with these control tokens, whose middle is plain text."""
    from tokenizers import AddedToken, decoders

    backend = byte_level()
    backend.decoder = decoders.ByteLevel()
    hub = hub_tokenizer(backend)
    hub.add_tokens([AddedToken(mark, special=True) for mark in marks], special_tokens=True)
    tokenizer = ChatTokenizer(hub)
    ids = tokenizer.encode_control(control) + tokenizer.encode_plain(plain)[0]
    ids += tokenizer.encode_control(after)
    text = tokenizer.written(ids, hub.decode(ids, skip_special_tokens=True))
    return read_verdict(load_template("detailed"), text, cut_off=False)


@pytest.mark.parametrize(("control", "plain", "after", "label"), rows(__file__, "gpt_oss"))
def test_of_gpt_oss_only_the_final_channel_is_the_answer(
    control: str, plain: str, after: str, label: str | None
) -> None:
    result = read_as(HARMONY, control, plain, after)
    assert (result.label, result.status) == (label, "ok" if label else "unparseable")


MISTRAL = ("[THINK]", "[/THINK]")


@pytest.mark.parametrize(("control", "plain", "after", "label"), rows(__file__, "mistral"))
def test_of_thoughts_between_control_tokens_nothing_is_read(
    control: str, plain: str, after: str, label: str | None
) -> None:
    result = read_as(MISTRAL, control, plain, after)
    assert (result.label, result.status) == (label, "ok" if label else "unparseable")


def test_other_models_text_is_as_the_engine_decoded_it() -> None:
    assert ChatTokenizer(hub_tokenizer(byte_level())).written([3, 4], "VERDICT: 1") == "VERDICT: 1"


class FakeSlowTokenizer:
    chat_template = CHAT


@pytest.mark.parametrize(
    ("make", "remedy"),
    [
        (lambda: hub_tokenizer(byte_level(), chat_template=None), "serve an instruct model"),
        (FakeSlowTokenizer, r"no tokenizer\.json; convert it"),
        (lambda: hub_tokenizer(of_characters("18")), r"no token for '\?'"),
    ],
)
def test_a_tokenizer_that_cannot_show_a_conversation_is_refused(make: Any, remedy: str) -> None:
    with pytest.raises(CheckpointError, match=remedy):
        ChatTokenizer(make())


def test_special_tokens_of_a_unigram_vocabulary_stay_text_too() -> None:
    from tokenizers import Tokenizer, models

    letters = sorted(set("".join(SPECIAL)) | set("18?"))
    pieces = [*((text, 0.0) for text in SPECIAL), *((c, -3.0) for c in letters)]
    tokenizer = ChatTokenizer(hub_tokenizer(Tokenizer(models.Unigram(pieces, unk_id=0))))
    assert tokenizer.encode_control("18</s>")[2:] == [1]
    ids, starts = tokenizer.encode_plain("18</s>8<|im_end|>")
    assert not set(ids) & {0, 1, 2}
    assert (ids[6], starts[6]) == (ids[1], 6)


@pytest.mark.parametrize("unk_token", ["<unk>", "</s>"])
def test_a_character_that_the_vocabulary_lacks_keeps_its_neighbours_apart(unk_token: str) -> None:
    tokenizer = ChatTokenizer(hub_tokenizer(of_characters("18?", unk_token)))
    ids, starts = tokenizer.encode_plain("1\u00e9\u00e88")
    assert (ids, list(starts)) == ([3, 5, 5, 4], [0, 1, 2, 3])


def test_a_long_text_has_the_same_tokens() -> None:
    tokenizer = ChatTokenizer(hub_tokenizer(byte_level()))
    ids, starts = tokenizer.encode_plain("½ eighteen\n" * 3_000)
    once, _ = tokenizer.encode_plain("½ eighteen\n")
    assert ids == once * 3_000
    assert starts[-1] == len("½ eighteen\n") * 3_000 - 1
