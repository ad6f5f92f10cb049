"""Letters that imitate others are written out; what people write in any script is not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.drawn_values import PATIENT
from vibe_jupyter.tools.confusables import escape_lookalikes


@pytest.mark.attack("hostile texts", always=True)
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("p\u0430ssword", "p⟨U+0430⟩ssword"),  # Cyrillic
        ("\u0410dmin = 1", "⟨U+0410⟩dmin = 1"),
        ("os.rem\u03bfve(x)", "os.rem⟨U+03BF⟩ve(x)"),  # Greek
        ("c\u03bdx", "c⟨U+03BD⟩x"),
        ("\u0391dmin", "⟨U+0391⟩dmin"),
        ("sh\u057dtil", "sh⟨U+057D⟩til"),  # Armenian
        ("\u0261it push", "⟨U+0261⟩it push"),  # IPA
        ("get_use\u0433_p\u0430th", "get_useг_p⟨U+0430⟩th"),
        ("\\\u0430dmin", "\\⟨U+0430⟩dmin"),
        ("\uff45\uff56\uff41\uff4c('1')", "⟨U+FF45⟩⟨U+FF56⟩⟨U+FF41⟩⟨U+FF4C⟩('1')"),
        ("ex\U0001d41ec(x)", "ex⟨U+1D41E⟩c(x)"),
        ("\U0001d5fc\U0001d600.x", "⟨U+1D5FC⟩⟨U+1D600⟩.x"),
        ("\u1d49\u1d5b\u1d43\u02e1(x)", "⟨U+1D49⟩⟨U+1D5B⟩⟨U+1D43⟩⟨U+02E1⟩(x)"),
        ("open('\ufb01le')", "open('⟨U+FB01⟩le')"),
        ("\u212aey", "⟨U+212A⟩ey"),
    ],
)
def test_a_letter_that_imitates_another_is_written_out(text: str, shown: str) -> None:
    assert escape_lookalikes(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "ρ_0 = 1.2; σ2max, λ_min, x_α, Δx, dρ, Δν, μm, kΩ, θ̇, sinθcosφ = 1",
        "∂ρ/∂t + ∇·(ρu) = 0  # ρ: density, η: viscosity, ν = η/ρ",
        "∑ wᵢⱼ xᵢ ≤ 10ⁿ, x ∈ ℝ, C_ℓ, 𝐱 = 𝐀⁻¹𝐛, ℏω, x², ½",
        "# Считаем среднее по столбцу; если пусто, пропускаем (см. README)",
        "print('Сумма:\\nРасход\\tСчёт'); f'{n}руб %dруб %.2fруб %s'",
        "df['Город'] == 'Москва'  # IT-компания, Python-скрипт, json-файла",
        "сор = хор  # Οι λέξεις είναι ελληνικές, αυτό το όνομα",
        "df['都市'] = 'ＮＨＫ番組 Ａ社 Tシャツ １２３，（）'  # 한국어 텍스트",
        "naïve café Łódź İstanbul ışık straße Ångström nº 1ª Mª Ñandú cœur",
        "שלום עולם مرحبا بالعالم नमस्ते Երևան Қазақстан Тоҷикистон",
        "https://example.com/a_b?c=%D0%B0 C:\\\\new\\\\table",
    ],
)
def test_what_people_write_stays(text: str) -> None:
    assert escape_lookalikes(text) == text


@PATIENT
@given(st.text())
def test_writing_out_is_done_once(text: str) -> None:
    assert escape_lookalikes(escape_lookalikes(text)) == escape_lookalikes(text)
