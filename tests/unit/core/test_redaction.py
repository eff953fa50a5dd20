"""Credentials by their shapes. Those here are made up when the tests run, so that none stands in a file."""

from __future__ import annotations

import json
import string
import time
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.core.redaction import SHAPES, findings, redact

ROOT = Path(__file__).parents[3]
DATA = ROOT.parent / "shared" / "data" / "transcripts"
WORD = string.ascii_letters + string.digits
UPPER = string.ascii_uppercase + "234567"
HEX = "0123456789abcdef"
random = Random(7)


def some(letters: str, size: int) -> str:
    return "".join(random.choices(letters, k=size))


def block(kind: str, *lines: str, breaks: str = "\n") -> str:
    return breaks.join([f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----"])


BODY = [some(WORD + "+/", 64) for _ in range(12)]
JWT = f"eyJ{some(WORD, 20)}.eyJ{some(WORD, 60)}.{some(WORD, 43)}"
SECRETS = [
    ("anthropic-key", f"sk-ant-api03-{some(WORD + '-_', 93)}AA"),
    ("anthropic-key", f"sk-ant-oat01-{some(WORD + '-_', 86)}"),
    ("openrouter-key", f"sk-or-v1-{some(HEX, 64)}"),
    ("openai-key", f"sk-proj-{some(WORD + '-_', 74)}T3BlbkFJ{some(WORD + '-_', 74)}"),
    ("openai-key", f"sk-{some(WORD, 20)}T3BlbkFJ{some(WORD, 20)}"),
    ("openai-key", f"sk-svcacct-{some(WORD, 40)}"),
    ("github-token", f"ghp_{some(WORD, 36)}"),
    ("github-token", f"github_pat_{some(WORD, 22)}_{some(WORD, 59)}"),
    ("gitlab-token", f"glpat-{some(WORD, 20)}"),
    ("aws-key-id", f"AKIA{some(UPPER, 16)}"),
    ("slack-token", f"xoxb-{some(string.digits, 12)}-{some(WORD, 24)}"),
    ("slack-token", f"xapp-1-{some(UPPER, 11)}-{some(HEX, 64)}"),
    ("google-key", f"AIza{some(WORD + '-_', 35)}"),
    ("google-token", f"ya29.{some(WORD + '-_', 100)}"),
    ("google-client-secret", f"GOCSPX-{some(WORD, 28)}"),
    ("stripe-key", f"sk_live_{some(WORD, 24)}"),
    ("huggingface-token", f"hf_{some(string.ascii_letters, 34)}"),
    ("npm-token", f"npm_{some(WORD, 36)}"),
    ("pypi-token", f"pypi-AgEIcHlwaS5vcmc{some(WORD + '-_', 120)}"),
    ("jwt", JWT),
    ("private-key", block("RSA PRIVATE KEY", *BODY, some(WORD, 11) + "=")),
    ("private-key", block("OPENSSH PRIVATE KEY", *BODY)),
    ("private-key", block("EC PRIVATE KEY", "Proc-Type: 4,ENCRYPTED", "", *BODY)),
    ("private-key", block("PGP PRIVATE KEY BLOCK", "", *BODY, "=abcd")),
    ("private-key", block("PRIVATE KEY", *BODY, breaks="\\n")),
]
FRAMED = [
    ("authorization-header", "Authorization: Bearer {}", some(WORD, 40) + "1"),
    ("authorization-header", '"authorization": "bearer {}"', some(WORD, 40) + "1"),
    ("authorization-header", "AUTHORIZATION=Basic {}", some(WORD, 40) + "1=="),
    ("authorization-header", "curl -H 'X-Api-Key: {}' x", some(WORD, 32) + "1"),
    ("authorization-header", 'x-api-key\\": \\"{}\\"', some(HEX, 32)),
    ("aws-secret-key", "aws_secret_access_key = {}", some(WORD + "/+", 40)),
    ("aws-secret-key", '"SecretAccessKey": "{}",', some(WORD + "/+", 40)),
    (
        "slack-webhook",
        "https://hooks.slack.com/services/{}",
        f"T{some(UPPER, 8)}/B{some(WORD, 34)}",
    ),
]


@pytest.mark.parametrize(("kind", "secret"), SECRETS, ids=[kind for kind, _ in SECRETS])
def test_a_credential_is_found_wherever_it_stands(kind: str, secret: str) -> None:
    for before, after in [
        ("", ""),
        ("key=", "\n"),
        ("'", "'"),
        ("(", ")."),
        ("\n", " "),
        ("鍵", "鍵"),
    ]:
        done = redact(f"{before}{secret}{after}")
        assert done.text == f"{before}[redacted {kind}]{after}"
        [found] = done.found
        assert (found.kind, found.start, found.end) == (kind, len(before), len(before + secret))


@pytest.mark.parametrize(("kind", "secret"), SECRETS, ids=[kind for kind, _ in SECRETS])
def test_a_credential_is_found_in_text_that_json_escapes(kind: str, secret: str) -> None:
    for text in (f"here:\n{secret}\nthere", f'a "{secret}" b', f"\t{secret}\r\n"):
        escaped = json.dumps({"content": text})
        done = redact(escaped)
        assert json.loads(done.text)["content"] == text.replace(secret, f"[redacted {kind}]")
        twice = redact(json.dumps({"arguments": escaped}))
        assert [one.kind for one in twice.found] == [kind]
        assert secret[-12:] not in twice.text


@pytest.mark.parametrize(("kind", "frame", "secret"), FRAMED)
def test_of_a_header_or_setting_only_the_secret_goes(kind: str, frame: str, secret: str) -> None:
    text = frame.format(secret)
    done = redact(text)
    assert done.text == frame.format(f"[redacted {kind}]")


def test_a_key_that_was_cut_off_goes_as_far_as_it_stands() -> None:
    whole = block("RSA PRIVATE KEY", *BODY)
    cut = whole[: len(whole) // 2]
    assert redact(f"{cut}\n... and more").text == "[redacted private-key]\n... and more"


def test_several_are_told_one_by_one_and_overlapping_ones_once() -> None:
    keys = [secret for _, secret in SECRETS[:4]]
    done = redact(" and ".join(keys))
    assert done.text == " and ".join(f"[redacted {kind}]" for kind, _ in SECRETS[:4])
    assert len(redact(f"Authorization: Bearer {JWT}").found) == 1


@pytest.mark.parametrize(
    "text",
    [
        "task-manager sk-learn risk-proj- sk-ant-",
        "AKIAIOSFODNN7 AKIA" + "a" * 16,
        "eyJ is how base64 of JSON begins; eyJhbGciOi.x.y",
        block("RSA PRIVATE KEY", "..."),
        'if text.startswith("-----BEGIN PRIVATE KEY-----"): return "-----END PRIVATE KEY-----"',
        block("PUBLIC KEY", *BODY),
        block("CERTIFICATE", *BODY),
        "Authorization: Bearer $TOKEN",
        "Authorization: Bearer <your-token-goes-here>",
        "Authorization: Basic authentication-is-required-here",
        "x-api-key: ANTHROPIC_API_KEY_OF_YOURS",
        "ctx-" + some(HEX, 64),
        "sha512-" + some(WORD + "+/", 86) + "==",
        some(HEX, 40),
        "xoxb-your-token",
        "ghp_xxxx npm_config_cache hf_hub_download",
    ],
)
def test_what_only_looks_alike_stays(text: str) -> None:
    assert redact(text).text == text


def test_letters_of_a_key_inside_a_longer_word_are_none() -> None:
    for _, key in (SECRETS[4], SECRETS[9], SECRETS[12]):
        assert findings(f"abc{key}") == []
        assert findings(f"{key}def") == [] or key.startswith("AIza")


@given(st.text(alphabet='AKIsk-anteyJ.gh_p0123456789XOxob \n"\\', max_size=400), st.integers(0, 24))
def test_what_was_redacted_holds_nothing_more_to_redact(text: str, at: int) -> None:
    done = redact(text + SECRETS[at][1] + text)
    assert redact(done.text).found == ()


@pytest.mark.parametrize(
    "unit",
    ["eyJ", "eyJa.", "sk-ant-", "sk-ant-api03-", "AKIA", "api-key=", "api-key:", "xoxb-1",
     "authorization:bearer ", "-----BEGIN PRIVATE KEY-----\n", "-----BEGIN PRIVATE KEY-----\nA: b",
     "PRIVATE KEY", "\\n", "SECRET_ACCESS_KEY=", "-----BEGIN "],
)  # fmt: skip
def test_no_text_takes_long(unit: str) -> None:
    text = unit * (300_000 // len(unit))
    begun = time.process_time()
    findings(text)
    assert time.process_time() - begun < 1


def test_no_code_of_this_project_holds_a_shape_by_chance() -> None:
    """Nor do hashes, of which the locks have thousands: what is found is an example."""
    files = [*ROOT.glob("src/**/*.py"), *ROOT.glob("requirements/*.txt")]
    found = [(file.name, one) for file in files for one in findings(file.read_text("utf-8"))]
    assert [name for name, _ in found] == ["redaction.py"]


@pytest.mark.full
@pytest.mark.skipif(not DATA.is_dir(), reason="the shared data is not here")
def test_real_transcripts_hold_no_false_positive() -> None:
    files = [file for file in DATA.rglob("*") if file.is_file()]
    texts = (file.read_text("utf-8", errors="surrogateescape") for file in files)
    assert sum(len(findings(text)) for text in texts) == 0


def test_every_shape_begins_with_its_hint() -> None:
    """Which is why looking for the hint is enough, and fast."""
    for shape in SHAPES:
        assert shape.kind == "private-key" or shape.pattern.pattern.replace("\\", "").startswith(
            shape.hint.replace("\\", "")
        )
