"""Credentials are recognized by their shapes. The examples are generated, so that no file contains one."""

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


def random_text(letters: str, size: int) -> str:
    return "".join(random.choices(letters, k=size))


def pem_block(kind: str, *lines: str, breaks: str = "\n") -> str:
    return breaks.join([f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----"])


BODY = [random_text(WORD + "+/", 64) for _ in range(12)]
JWT = f"eyJ{random_text(WORD, 20)}.eyJ{random_text(WORD, 60)}.{random_text(WORD, 43)}"
SECRETS = [
    ("anthropic-key", f"sk-ant-api03-{random_text(WORD + '-_', 93)}AA"),
    ("anthropic-key", f"sk-ant-oat01-{random_text(WORD + '-_', 86)}"),
    ("openrouter-key", f"sk-or-v1-{random_text(HEX, 64)}"),
    ("openai-key", f"sk-proj-{random_text(WORD + '-_', 74)}T3BlbkFJ{random_text(WORD + '-_', 74)}"),
    ("openai-key", f"sk-{random_text(WORD, 20)}T3BlbkFJ{random_text(WORD, 20)}"),
    ("openai-key", f"sk-svcacct-{random_text(WORD, 40)}"),
    ("github-token", f"ghp_{random_text(WORD, 36)}"),
    ("github-token", f"github_pat_{random_text(WORD, 22)}_{random_text(WORD, 59)}"),
    ("gitlab-token", f"glpat-{random_text(WORD, 20)}"),
    ("aws-key-id", f"AKIA{random_text(UPPER, 16)}"),
    ("slack-token", f"xoxb-{random_text(string.digits, 12)}-{random_text(WORD, 24)}"),
    ("slack-token", f"xapp-1-{random_text(UPPER, 11)}-{random_text(HEX, 64)}"),
    ("google-key", f"AIza{random_text(WORD + '-_', 35)}"),
    ("google-token", f"ya29.{random_text(WORD + '-_', 100)}"),
    ("google-client-secret", f"GOCSPX-{random_text(WORD, 28)}"),
    ("stripe-key", f"sk_live_{random_text(WORD, 24)}"),
    ("huggingface-token", f"hf_{random_text(string.ascii_letters, 34)}"),
    ("npm-token", f"npm_{random_text(WORD, 36)}"),
    ("pypi-token", f"pypi-AgEIcHlwaS5vcmc{random_text(WORD + '-_', 120)}"),
    ("jwt", JWT),
    ("private-key", pem_block("RSA PRIVATE KEY", *BODY, random_text(WORD, 11) + "=")),
    ("private-key", pem_block("OPENSSH PRIVATE KEY", *BODY)),
    ("private-key", pem_block("EC PRIVATE KEY", "Proc-Type: 4,ENCRYPTED", "", *BODY)),
    ("private-key", pem_block("PGP PRIVATE KEY BLOCK", "", *BODY, "=abcd")),
    ("private-key", pem_block("PRIVATE KEY", *BODY, breaks="\\n")),
    ("anthropic-key", f"sk-ant-admin01-{random_text(WORD + '-_', 93)}AA"),
    ("openai-key", f"sk-admin-{random_text(WORD + '-_', 74)}"),
    ("openai-key", f"sk-{random_text(WORD, 48)}"),
    ("deepseek-key", f"sk-{random_text(HEX, 32)}"),
    ("langfuse-key", f"sk-lf-{uuid4()}"),
    ("google-key", f"AQ.Ab{random_text(WORD + '-_', 48)}"),
    ("groq-key", f"gsk_{random_text(WORD, 52)}"),
    ("xai-key", f"xai-{random_text(WORD, 80)}"),
    ("perplexity-key", f"pplx-{random_text(WORD, 48)}"),
    ("replicate-token", f"r8_{random_text(WORD, 37)}"),
    ("cerebras-key", f"csk-{random_text(LOWER, 48)}"),
    ("nvidia-key", f"nvapi-{random_text(WORD + '-_', 63)}x"),
    ("together-key", f"tgp_v1_{random_text(WORD + '-_', 42)}x"),
    ("elevenlabs-key", f"sk_{random_text(HEX, 48)}"),
    ("tavily-key", f"tvly-dev-{random_text(WORD, 32)}"),
    ("firecrawl-key", f"fc-{random_text(HEX, 32)}"),
    ("pinecone-key", f"pcsk_{random_text(WORD, 6)}_{random_text(WORD, 63)}"),
    ("langsmith-key", f"lsv2_pt_{random_text(HEX, 32)}_{random_text(HEX, 10)}"),
    ("e2b-key", f"e2b_{random_text(HEX, 40)}"),
    ("github-token", f"ghs_{random_text(WORD, 36)}"),
    ("gitlab-token", f"glpat-{random_text(WORD + '-_', 27)}.01.{random_text(LOWER, 9)}"),
    ("gitlab-token", f"glrt-{random_text(WORD, 20)}"),
    ("rubygems-key", f"rubygems_{random_text(HEX, 48)}"),
    ("docker-token", f"dckr_pat_{random_text(WORD, 27)}"),
    ("postman-key", f"PMAK-{random_text(HEX, 24)}-{random_text(HEX, 34)}"),
    ("circleci-token", f"CCIPAT_{random_text(WORD, 22)}_{random_text(HEX, 40)}"),
    ("buildkite-token", f"bkua_{random_text(LOWER, 40)}"),
    ("digitalocean-token", f"dop_v1_{random_text(HEX, 64)}"),
    ("doppler-token", f"dp.pt.{random_text(WORD, 43)}"),
    ("doppler-token", f"dp.st.prd_main.{random_text(WORD, 43)}"),
    ("heroku-key", f"HRKU-AA{random_text(WORD + '-_', 57)}x"),
    ("heroku-key", f"HRKU-{uuid4()}"),
    ("vault-token", f"hvs.{random_text(WORD + '-_', 95)}"),
    ("databricks-token", f"dapi{random_text(HEX, 32)}-2"),
    ("pulumi-token", f"pul-{random_text(HEX, 40)}"),
    ("planetscale-token", f"pscale_pw_{random_text(WORD, 43)}"),
    ("supabase-token", f"sbp_{random_text(HEX, 40)}"),
    ("supabase-token", f"sb_secret_{random_text(WORD, 22)}_{random_text(WORD, 8)}"),
    ("neon-key", f"napi_{random_text(LOWER, 64)}"),
    ("netlify-token", f"nfp_{random_text(WORD, 36)}"),
    ("render-key", f"rnd_{random_text(WORD, 32)}"),
    ("tailscale-key", f"tskey-auth-{random_text(WORD, 17)}-{random_text(WORD, 32)}"),
    ("cloudflare-key", f"v1.0-{random_text(HEX, 24)}-{random_text(HEX, 146)}"),
    ("age-key", f"AGE-SECRET-KEY-1{random_text('QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L', 58)}"),
    ("linear-key", f"lin_api_{random_text(WORD, 40)}"),
    ("notion-token", f"ntn_{random_text(string.digits, 11)}{random_text(WORD, 35)}"),
    ("notion-token", f"secret_{random_text(WORD, 43)}"),
    (
        "atlassian-token",
        f"ATATT3xFf{random_text(WORD + '-_', 180)}={random_text('0123456789ABCDEF', 8)}",
    ),
    ("figma-token", f"figd_{random_text(WORD + '-_', 40)}"),
    ("contentful-token", f"CFPAT-{random_text(WORD, 43)}"),
    ("dropbox-token", f"sl.u.{random_text(WORD + '-_', 140)}"),
    ("stripe-key", f"rk_test_{random_text(WORD, 99)}"),
    ("stripe-key", f"sk_test_{random_text(WORD, 24)}"),
    ("stripe-webhook-secret", f"whsec_{random_text(WORD, 32)}"),
    ("shopify-token", f"shpat_{random_text(HEX, 32)}"),
    ("square-secret", f"sq0csp-{random_text(WORD + '-_', 42)}x"),
    ("sendgrid-key", f"SG.{random_text(WORD + '-_', 22)}.{random_text(WORD + '-_', 42)}x"),
    ("brevo-key", f"xkeysib-{random_text(HEX, 64)}-{random_text(WORD, 16)}"),
    ("twilio-key", f"SK{random_text(HEX, 32)}"),
    ("mailgun-key", f"key-{random_text(HEX, 32)}"),
    ("grafana-token", f"glsa_{random_text(WORD, 32)}_{random_text(HEX, 8)}"),
    ("grafana-token", f"glc_eyJ{random_text(WORD, 90)}=="),
    ("newrelic-key", f"NRAK-{random_text(UPPER, 27)}"),
    ("sentry-token", f"sntryu_{random_text(HEX, 64)}"),
    ("sentry-token", f"sntrys_eyJ{random_text(WORD, 120)}=_{random_text(WORD + '+/', 43)}"),
    ("dynatrace-token", f"dt0c01.{random_text(UPPER, 24)}.{random_text(UPPER, 64)}"),
    ("mapbox-token", f"sk.eyJ{random_text(WORD, 70)}.{random_text(WORD, 22)}"),
    ("1password-token", f"ops_eyJ{random_text(WORD, 400)}"),
    ("aws-bedrock-key", f"ABSKQmVkcm9ja0FQSUtleS{random_text(WORD, 110)}="),
    ("aws-session-token", f"IQoJb3JpZ2luX2Vj{random_text(WORD + '+/', 340)}=="),
    ("huggingface-token", f"api_org_{random_text(string.ascii_letters, 34)}"),
]
PARTS = [
    ("authorization-header", "Authorization: Bearer {}", random_text(WORD, 40) + "1"),
    ("authorization-header", '"authorization": "bearer {}"', random_text(WORD, 40) + "1"),
    ("authorization-header", "AUTHORIZATION=Basic {}", random_text(WORD, 40) + "1=="),
    ("authorization-header", "curl -H 'X-Api-Key: {}' x", random_text(WORD, 32) + "1"),
    ("authorization-header", 'x-api-key\\": \\"{}\\"', random_text(HEX, 32)),
    ("aws-secret-key", "aws_secret_access_key = {}", random_text(WORD + "/+", 40)),
    ("aws-secret-key", '"SecretAccessKey": "{}",', random_text(WORD + "/+", 40)),
    (
        "slack-webhook",
        "https://hooks.slack.com/services/{}",
        f"T{random_text(UPPER, 8)}/B{random_text(WORD, 34)}",
    ),
    (
        "discord-webhook",
        f"https://discord.com/api/webhooks/{'7' * 18}/{{}}",
        random_text(WORD + "-_", 68),
    ),
    (
        "discord-token",
        f"{b64encode(b'114908712345678901').decode()}.{{}}",
        f"{random_text(WORD, 6)}.{random_text(WORD + '-_', 38)}",
    ),
    ("telegram-token", "bot7412589630:AA{}/getMe", random_text(WORD + "-_", 33)),
    ("google-refresh-token", '"refresh_token": "{}"', f"1//0{random_text(WORD + '-_', 99)}"),
    ("azure-key", "AccountName=x;AccountKey={};", random_text(WORD + "+/", 86) + "=="),
    (
        "azure-key",
        "SharedAccessKeyName=Root;SharedAccessKey={};",
        random_text(WORD + "+/", 43) + "=",
    ),
    (
        "azure-signature",
        "https://x.blob.core.windows.net/c?sv=2&sig={}&se=3",
        f"{random_text(WORD, 43)}%3D",
    ),
    ("azure-secret", "client a1B8Q~{}", random_text(WORD + "-_", 34)),
    ("terraform-token", f"{random_text(WORD, 14)}.atlasv1.{{}}", random_text(WORD + "-_", 67)),
    ("heroku-key", "HEROKU_API_KEY={}", uuid4()),
    ("npm-token", "//registry.npmjs.org/:_authToken={}", uuid4()),
    ("url-password", "postgres://app:{}@db.example:5432/app", random_text(WORD, 16)),
    ("url-password", "mongodb+srv://app:{}@cluster0.example/?w=1", f"p%40{random_text(WORD, 9)}!"),
    ("url-password", "redis://:{}@127.0.0.1:6379/0", random_text(WORD, 12)),
    ("url-password", "https://me:{}@example.org/r.git", random_text(WORD, 20)),
    ("password", "DB_PASSWORD={}", random_text(WORD, 9) + "1"),
    ("password", '{{"password": "{}"}}', random_text(WORD, 9) + "1"),
    ("secret", "API_TOKEN={}", random_text(WORD, 30) + "1"),
    ("cookie", "Cookie: session={}", random_text(WORD, 30) + "1"),
]


@pytest.mark.parametrize(("kind", "secret"), SECRETS, ids=[kind for kind, _ in SECRETS])
def test_redaction_finds_a_credential_in_every_context(kind: str, secret: str) -> None:
    for before, after in [
        ("", ""),
        ("key=", "\n"),
        ("'", "'"),
        ("(", ")."),
        ("\n", " "),
        ("鍵", "鍵"),
    ]:
        redacted = redact(f"{before}{secret}{after}")
        assert redacted.text == f"{before}[redacted {kind}]{after}"
        [match] = redacted.matches
        assert (match.kind, match.start, match.end) == (kind, len(before), len(before + secret))


@pytest.mark.parametrize(("kind", "secret"), SECRETS, ids=[kind for kind, _ in SECRETS])
def test_redaction_finds_a_credential_in_json_escaped_text(kind: str, secret: str) -> None:
    for text in (f"here:\n{secret}\nthere", f'a "{secret}" b', f"\t{secret}\r\n"):
        escaped = json.dumps({"content": text})
        redacted = redact(escaped)
        assert json.loads(redacted.text)["content"] == text.replace(secret, f"[redacted {kind}]")
        twice = redact(json.dumps({"arguments": escaped}))
        assert [match.kind for match in twice.matches] == [kind]
        assert secret[-12:] not in twice.text


@pytest.mark.parametrize(("kind", "frame", "secret"), PARTS)
def test_redaction_of_a_header_or_setting_removes_only_the_secret(
    kind: str, frame: str, secret: str
) -> None:
    text = frame.format(secret)
    redacted = redact(text)
    assert redacted.text == frame.format(f"[redacted {kind}]")


def test_redaction_removes_a_truncated_key() -> None:
    full = pem_block("RSA PRIVATE KEY", *BODY)
    truncated = full[: len(full) // 2]
    assert redact(f"{truncated}\n... and more").text == "[redacted private-key]\n... and more"


def test_redaction_counts_separate_matches_and_merges_overlapping_ones() -> None:
    keys = [secret for _, secret in SECRETS[:4]]
    redacted = redact(" and ".join(keys))
    assert redacted.text == " and ".join(f"[redacted {kind}]" for kind, _ in SECRETS[:4])
    assert len(redact(f"Authorization: Bearer {JWT}").matches) == 1


@pytest.mark.parametrize(
    "text",
    [
        "task-manager sk-learn risk-proj- sk-ant-",
        "AKIAIOSFODNN7 AKIA" + "a" * 16,
        "eyJ is how base64 of JSON begins; eyJhbGciOi.x.y",
        pem_block("RSA PRIVATE KEY", "..."),
        'if text.startswith("-----BEGIN PRIVATE KEY-----"): return "-----END PRIVATE KEY-----"',
        pem_block("PUBLIC KEY", *BODY),
        pem_block("CERTIFICATE", *BODY),
        "Authorization: Bearer $TOKEN",
        "Authorization: Bearer <your-token-goes-here>",
        "Authorization: Basic authentication-is-required-here",
        "x-api-key: ANTHROPIC_API_KEY_OF_YOURS",
        "ctx-" + random_text(HEX, 64),
        "sha512-" + random_text(WORD + "+/", 86) + "==",
        random_text(HEX, 40),
        "xoxb-your-token",
        "ghp_xxxx npm_config_cache hf_hub_download",
        "postgres://user:password@localhost/db postgres://postgres:postgres@db redis://:$PW@x",
        "https://localhost:8080/@scope/x http://u:<token>@x git@github.com:me/x://y:{p}@z",
        "cache-key-" + random_text(HEX, 32),
        "test_something_that_is_long.config.a_function_of_a_long_name_too",
        "{'_authToken': token_of_the_registry}",
    ],
)
def test_redaction_keeps_text_that_resembles_a_credential(text: str) -> None:
    assert redact(text).text == text


def test_redaction_ignores_key_letters_inside_a_longer_word() -> None:
    for key in (
        f"sk-{random_text(WORD, 48)}",
        f"AKIA{random_text(UPPER, 16)}",
        f"AIza{random_text(WORD, 35)}",
    ):
        assert find_credentials(f"abc{key}") == []
        assert find_credentials(f"{key}def") == []


@given(st.text(alphabet='AKIsk-anteyJ.gh_p0123456789XOxob \n"\\', max_size=400), st.integers(0, 24))
def test_redaction_is_idempotent(text: str, index: int) -> None:
    redacted = redact(text + SECRETS[index][1] + text)
    assert redact(redacted.text).matches == ()


@pytest.mark.parametrize(
    "unit",
    ["eyJ", "eyJa.", "sk-ant-", "sk-ant-api03-", "AKIA", "api-key=", "api-key:", "xoxb-1",
     "authorization:bearer ", "-----BEGIN PRIVATE KEY-----\n", "-----BEGIN PRIVATE KEY-----\nA: b",
     "PRIVATE KEY", "\\n", "SECRET_ACCESS_KEY=", "-----BEGIN "],
)  # fmt: skip
def test_redaction_takes_linear_time(unit: str) -> None:
    text = unit * (300_000 // len(unit))
    start_s = time.process_time()
    find_credentials(text)
    assert time.process_time() - start_s < 1


def test_redaction_finds_no_credential_in_this_project() -> None:
    """Source and lock files contain thousands of hashes. Each match is an example."""
    files = [*ROOT.glob("src/**/*.py"), *ROOT.glob("requirements/*.txt")]
    result = [
        (file.name, item) for file in files for item in find_credentials(file.read_text("utf-8"))
    ]
    assert {name for name, _ in result} == {"redaction.py", "store_purge.py"}


def ordinary_values(count: int) -> Iterator[str]:
    """Yield hashes, ids and blobs as transcripts contain them."""
    for n in range(count // 5):
        yield random_text(HEX, (32, 40, 56, 64, 96, 128)[n % 6])
        yield uuid4()
        yield b64encode(random.randbytes(24 + n % 900)).decode()
        yield urlsafe_b64encode(random.randbytes(24 + n % 300)).decode()
        yield ("sha256:", "sha512-", "toolu_01", "msg_", "ctx-")[n % 5] + random_text(
            WORD, 22 + n % 60
        )


@pytest.mark.req("D-06")
def test_redaction_keeps_hashes_ids_and_blobs() -> None:
    for item in ordinary_values(10_000):
        for frame in ("{}", '{{"uuid":"{}"}}', "commit {}\n", "?v={}&x=1", "/blobs/{}/raw"):
            assert find_credentials(frame.format(item)) == [], item
    assert find_credentials("\n".join(ordinary_values(2000))) == []


@pytest.mark.full
@pytest.mark.skipif(not DATA.is_dir(), reason="the shared data is not here")
def test_redaction_has_no_false_positives_in_real_transcripts() -> None:
    """The few values of names such as `csrf-token` are tokens. All other text stays."""
    looks_random = re.compile(r"[0-9a-f]{32,}|[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
    visited, tokens = 0, set[str]()
    for file in DATA.rglob("*"):
        if file.is_file():
            text = file.read_text("utf-8", errors="surrogateescape")
            text = text.encode("utf-8", "replace").decode()
            tokens |= {text[match.start : match.end] for match in find_credentials(text)}
            visited += len(looks_random.findall(text))
    assert visited > 10_000
    assert len(tokens) < 10
    assert not any(looks_random.search(token) for token in tokens)


def test_each_secret_pattern_matches_its_search_prefix() -> None:
    """The search for prefixes is therefore sufficient, and fast."""
    for shape in (*SHAPES, *NAMED_SHAPES):
        assert shape.pattern.pattern.replace("\\", "").startswith(shape.begins.replace("\\", ""))
    for shape in WORD_SHAPES:
        assert shape.hint in shape.begins
    for shape in (*FRAMED_SHAPES, *NAMED_SHAPES):
        assert shape.hint in shape.begins or shape.kind == "private-key"


def test_examples_cover_each_kind_of_secret() -> None:
    """An example is as long as the shortest match."""
    planted = {kind for kind, *_ in [*SECRETS, *PARTS]}
    assert planted == {shape.kind for shape in (*SHAPES, *NAMED_SHAPES)}
    assert len(planted) > 30
    words = {shape.kind for shape in WORD_SHAPES} - {shape.kind for shape in FRAMED_SHAPES}
    assert all(len(secret) >= MIN_RUN_CHARS for kind, secret in SECRETS if kind in words)
