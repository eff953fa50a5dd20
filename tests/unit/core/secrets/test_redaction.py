"""Credentials by their shapes. Those here are made up when the tests run, so that none stands in a file."""

from __future__ import annotations

import json
import re
import string
import time
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path
from random import Random
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.core.secrets.named_secrets import NAMED_SHAPES
from harken.core.secrets.patterns import FRAMED_SHAPES, MIN_RUN_CHARS, SHAPES, WORD_SHAPES
from harken.core.secrets.redaction import find_credentials, redact

ROOT = Path(__file__).parents[4]
DATA = ROOT.parent / "shared" / "data" / "transcripts"
WORD = string.ascii_letters + string.digits
UPPER = string.ascii_uppercase + "234567"
LOWER = string.ascii_lowercase + string.digits
HEX = "0123456789abcdef"
random = Random(7)


def uuid4() -> str:
    return str(UUID(int=random.getrandbits(128), version=4))


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
    ("anthropic-key", f"sk-ant-admin01-{some(WORD + '-_', 93)}AA"),
    ("openai-key", f"sk-admin-{some(WORD + '-_', 74)}"),
    ("openai-key", f"sk-{some(WORD, 48)}"),
    ("deepseek-key", f"sk-{some(HEX, 32)}"),
    ("langfuse-key", f"sk-lf-{uuid4()}"),
    ("google-key", f"AQ.Ab{some(WORD + '-_', 48)}"),
    ("groq-key", f"gsk_{some(WORD, 52)}"),
    ("xai-key", f"xai-{some(WORD, 80)}"),
    ("perplexity-key", f"pplx-{some(WORD, 48)}"),
    ("replicate-token", f"r8_{some(WORD, 37)}"),
    ("cerebras-key", f"csk-{some(LOWER, 48)}"),
    ("nvidia-key", f"nvapi-{some(WORD + '-_', 63)}x"),
    ("together-key", f"tgp_v1_{some(WORD + '-_', 42)}x"),
    ("elevenlabs-key", f"sk_{some(HEX, 48)}"),
    ("tavily-key", f"tvly-dev-{some(WORD, 32)}"),
    ("firecrawl-key", f"fc-{some(HEX, 32)}"),
    ("pinecone-key", f"pcsk_{some(WORD, 6)}_{some(WORD, 63)}"),
    ("langsmith-key", f"lsv2_pt_{some(HEX, 32)}_{some(HEX, 10)}"),
    ("e2b-key", f"e2b_{some(HEX, 40)}"),
    ("github-token", f"ghs_{some(WORD, 36)}"),
    ("gitlab-token", f"glpat-{some(WORD + '-_', 27)}.01.{some(LOWER, 9)}"),
    ("gitlab-token", f"glrt-{some(WORD, 20)}"),
    ("rubygems-key", f"rubygems_{some(HEX, 48)}"),
    ("docker-token", f"dckr_pat_{some(WORD, 27)}"),
    ("postman-key", f"PMAK-{some(HEX, 24)}-{some(HEX, 34)}"),
    ("circleci-token", f"CCIPAT_{some(WORD, 22)}_{some(HEX, 40)}"),
    ("buildkite-token", f"bkua_{some(LOWER, 40)}"),
    ("digitalocean-token", f"dop_v1_{some(HEX, 64)}"),
    ("doppler-token", f"dp.pt.{some(WORD, 43)}"),
    ("doppler-token", f"dp.st.prd_main.{some(WORD, 43)}"),
    ("heroku-key", f"HRKU-AA{some(WORD + '-_', 57)}x"),
    ("heroku-key", f"HRKU-{uuid4()}"),
    ("vault-token", f"hvs.{some(WORD + '-_', 95)}"),
    ("databricks-token", f"dapi{some(HEX, 32)}-2"),
    ("pulumi-token", f"pul-{some(HEX, 40)}"),
    ("planetscale-token", f"pscale_pw_{some(WORD, 43)}"),
    ("supabase-token", f"sbp_{some(HEX, 40)}"),
    ("supabase-token", f"sb_secret_{some(WORD, 22)}_{some(WORD, 8)}"),
    ("neon-key", f"napi_{some(LOWER, 64)}"),
    ("netlify-token", f"nfp_{some(WORD, 36)}"),
    ("render-key", f"rnd_{some(WORD, 32)}"),
    ("tailscale-key", f"tskey-auth-{some(WORD, 17)}-{some(WORD, 32)}"),
    ("cloudflare-key", f"v1.0-{some(HEX, 24)}-{some(HEX, 146)}"),
    ("age-key", f"AGE-SECRET-KEY-1{some('QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L', 58)}"),
    ("linear-key", f"lin_api_{some(WORD, 40)}"),
    ("notion-token", f"ntn_{some(string.digits, 11)}{some(WORD, 35)}"),
    ("notion-token", f"secret_{some(WORD, 43)}"),
    ("atlassian-token", f"ATATT3xFf{some(WORD + '-_', 180)}={some('0123456789ABCDEF', 8)}"),
    ("figma-token", f"figd_{some(WORD + '-_', 40)}"),
    ("contentful-token", f"CFPAT-{some(WORD, 43)}"),
    ("dropbox-token", f"sl.u.{some(WORD + '-_', 140)}"),
    ("stripe-key", f"rk_test_{some(WORD, 99)}"),
    ("stripe-key", f"sk_test_{some(WORD, 24)}"),
    ("stripe-webhook-secret", f"whsec_{some(WORD, 32)}"),
    ("shopify-token", f"shpat_{some(HEX, 32)}"),
    ("square-secret", f"sq0csp-{some(WORD + '-_', 42)}x"),
    ("sendgrid-key", f"SG.{some(WORD + '-_', 22)}.{some(WORD + '-_', 42)}x"),
    ("brevo-key", f"xkeysib-{some(HEX, 64)}-{some(WORD, 16)}"),
    ("twilio-key", f"SK{some(HEX, 32)}"),
    ("mailgun-key", f"key-{some(HEX, 32)}"),
    ("grafana-token", f"glsa_{some(WORD, 32)}_{some(HEX, 8)}"),
    ("grafana-token", f"glc_eyJ{some(WORD, 90)}=="),
    ("newrelic-key", f"NRAK-{some(UPPER, 27)}"),
    ("sentry-token", f"sntryu_{some(HEX, 64)}"),
    ("sentry-token", f"sntrys_eyJ{some(WORD, 120)}=_{some(WORD + '+/', 43)}"),
    ("dynatrace-token", f"dt0c01.{some(UPPER, 24)}.{some(UPPER, 64)}"),
    ("mapbox-token", f"sk.eyJ{some(WORD, 70)}.{some(WORD, 22)}"),
    ("1password-token", f"ops_eyJ{some(WORD, 400)}"),
    ("aws-bedrock-key", f"ABSKQmVkcm9ja0FQSUtleS{some(WORD, 110)}="),
    ("aws-session-token", f"IQoJb3JpZ2luX2Vj{some(WORD + '+/', 340)}=="),
    ("huggingface-token", f"api_org_{some(string.ascii_letters, 34)}"),
]
PARTS = [
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
    ("discord-webhook", f"https://discord.com/api/webhooks/{'7' * 18}/{{}}", some(WORD + "-_", 68)),
    (
        "discord-token",
        f"{b64encode(b'114908712345678901').decode()}.{{}}",
        f"{some(WORD, 6)}.{some(WORD + '-_', 38)}",
    ),
    ("telegram-token", "bot7412589630:AA{}/getMe", some(WORD + "-_", 33)),
    ("google-refresh-token", '"refresh_token": "{}"', f"1//0{some(WORD + '-_', 99)}"),
    ("azure-key", "AccountName=x;AccountKey={};", some(WORD + "+/", 86) + "=="),
    ("azure-key", "SharedAccessKeyName=Root;SharedAccessKey={};", some(WORD + "+/", 43) + "="),
    (
        "azure-signature",
        "https://x.blob.core.windows.net/c?sv=2&sig={}&se=3",
        f"{some(WORD, 43)}%3D",
    ),
    ("azure-secret", "client a1B8Q~{}", some(WORD + "-_", 34)),
    ("terraform-token", f"{some(WORD, 14)}.atlasv1.{{}}", some(WORD + "-_", 67)),
    ("heroku-key", "HEROKU_API_KEY={}", uuid4()),
    ("npm-token", "//registry.npmjs.org/:_authToken={}", uuid4()),
    ("url-password", "postgres://app:{}@db.example:5432/app", some(WORD, 16)),
    ("url-password", "mongodb+srv://app:{}@cluster0.example/?w=1", f"p%40{some(WORD, 9)}!"),
    ("url-password", "redis://:{}@127.0.0.1:6379/0", some(WORD, 12)),
    ("url-password", "https://me:{}@example.org/r.git", some(WORD, 20)),
    ("password", "DB_PASSWORD={}", some(WORD, 9) + "1"),
    ("password", '{{"password": "{}"}}', some(WORD, 9) + "1"),
    ("secret", "API_TOKEN={}", some(WORD, 30) + "1"),
    ("cookie", "Cookie: session={}", some(WORD, 30) + "1"),
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
        [found] = done.matches
        assert (found.kind, found.start, found.end) == (kind, len(before), len(before + secret))


@pytest.mark.parametrize(("kind", "secret"), SECRETS, ids=[kind for kind, _ in SECRETS])
def test_a_credential_is_found_in_text_that_json_escapes(kind: str, secret: str) -> None:
    for text in (f"here:\n{secret}\nthere", f'a "{secret}" b', f"\t{secret}\r\n"):
        escaped = json.dumps({"content": text})
        done = redact(escaped)
        assert json.loads(done.text)["content"] == text.replace(secret, f"[redacted {kind}]")
        twice = redact(json.dumps({"arguments": escaped}))
        assert [one.kind for one in twice.matches] == [kind]
        assert secret[-12:] not in twice.text


@pytest.mark.parametrize(("kind", "frame", "secret"), PARTS)
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
    assert len(redact(f"Authorization: Bearer {JWT}").matches) == 1


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
        "postgres://user:password@localhost/db postgres://postgres:postgres@db redis://:$PW@x",
        "https://localhost:8080/@scope/x http://u:<token>@x git@github.com:me/x://y:{p}@z",
        "cache-key-" + some(HEX, 32),
        "test_something_that_is_long.config.a_function_of_a_long_name_too",
        "{'_authToken': token_of_the_registry}",
    ],
)
def test_what_only_looks_alike_stays(text: str) -> None:
    assert redact(text).text == text


def test_letters_of_a_key_inside_a_longer_word_are_none() -> None:
    for key in (f"sk-{some(WORD, 48)}", f"AKIA{some(UPPER, 16)}", f"AIza{some(WORD, 35)}"):
        assert find_credentials(f"abc{key}") == []
        assert find_credentials(f"{key}def") == []


@given(st.text(alphabet='AKIsk-anteyJ.gh_p0123456789XOxob \n"\\', max_size=400), st.integers(0, 24))
def test_what_was_redacted_holds_nothing_more_to_redact(text: str, at: int) -> None:
    done = redact(text + SECRETS[at][1] + text)
    assert redact(done.text).matches == ()


@pytest.mark.parametrize(
    "unit",
    ["eyJ", "eyJa.", "sk-ant-", "sk-ant-api03-", "AKIA", "api-key=", "api-key:", "xoxb-1",
     "authorization:bearer ", "-----BEGIN PRIVATE KEY-----\n", "-----BEGIN PRIVATE KEY-----\nA: b",
     "PRIVATE KEY", "\\n", "SECRET_ACCESS_KEY=", "-----BEGIN "],
)  # fmt: skip
def test_no_text_takes_long(unit: str) -> None:
    text = unit * (300_000 // len(unit))
    begun = time.process_time()
    find_credentials(text)
    assert time.process_time() - begun < 1


def test_no_code_of_this_project_holds_a_shape_by_chance() -> None:
    """Nor do hashes, of which the locks have thousands: what is found is an example."""
    files = [*ROOT.glob("src/**/*.py"), *ROOT.glob("requirements/*.txt")]
    found = [
        (file.name, one) for file in files for one in find_credentials(file.read_text("utf-8"))
    ]
    assert {name for name, _ in found} == {"redaction.py", "store_purge.py"}


def ordinary(count: int) -> Iterator[str]:
    """Yield hashes, ids and blobs as they stand in transcripts."""
    for n in range(count // 5):
        yield some(HEX, (32, 40, 56, 64, 96, 128)[n % 6])
        yield uuid4()
        yield b64encode(random.randbytes(24 + n % 900)).decode()
        yield urlsafe_b64encode(random.randbytes(24 + n % 300)).decode()
        yield ("sha256:", "sha512-", "toolu_01", "msg_", "ctx-")[n % 5] + some(WORD, 22 + n % 60)


@pytest.mark.req("D-06")
def test_no_hash_or_id_or_blob_is_taken_for_a_credential() -> None:
    for one in ordinary(10_000):
        for frame in ("{}", '{{"uuid":"{}"}}', "commit {}\n", "?v={}&x=1", "/blobs/{}/raw"):
            assert find_credentials(frame.format(one)) == [], one
    assert find_credentials("\n".join(ordinary(2000))) == []


@pytest.mark.full
@pytest.mark.skipif(not DATA.is_dir(), reason="the shared data is not here")
def test_real_transcripts_hold_no_false_positive() -> None:
    """The few values under a name such as `csrf-token` are tokens; all else stays."""
    looks_random = re.compile(r"[0-9a-f]{32,}|[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
    seen, tokens = 0, set[str]()
    for file in DATA.rglob("*"):
        if file.is_file():
            text = file.read_text("utf-8", errors="surrogateescape")
            text = text.encode("utf-8", "replace").decode()
            tokens |= {text[found.start : found.end] for found in find_credentials(text)}
            seen += len(looks_random.findall(text))
    assert seen > 10_000
    assert len(tokens) < 10
    assert not any(looks_random.search(token) for token in tokens)


def test_every_shape_begins_with_what_is_looked_for_first() -> None:
    """Which is why looking for that is enough, and fast."""
    for shape in (*SHAPES, *NAMED_SHAPES):
        assert shape.pattern.pattern.replace("\\", "").startswith(shape.begins.replace("\\", ""))
    for shape in WORD_SHAPES:
        assert shape.hint in shape.begins
    for shape in (*FRAMED_SHAPES, *NAMED_SHAPES):
        assert shape.hint in shape.begins or shape.kind == "private-key"


def test_every_kind_is_planted_here() -> None:
    """A word is as long as the shortest run that is looked at."""
    planted = {kind for kind, *_ in [*SECRETS, *PARTS]}
    assert planted == {shape.kind for shape in (*SHAPES, *NAMED_SHAPES)}
    assert len(planted) > 30
    words = {shape.kind for shape in WORD_SHAPES} - {shape.kind for shape in FRAMED_SHAPES}
    assert all(len(secret) >= MIN_RUN_CHARS for kind, secret in SECRETS if kind in words)
