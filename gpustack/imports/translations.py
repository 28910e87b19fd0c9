"""Messages of the C library in other languages, translated to English, which programs and the kernel use otherwise.

The words are glibc's own translations. Source: bminor/glibc, po/de.po, fr.po, zh_CN.po, es.po, ru.po, pt_BR.po, it.po,
ja.po and pl.po; checked 2026-11-21.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

MOST = 1_000_000  # characters: more is a log, which the kernel and servers write in English
SAID: Mapping[str, tuple[str, ...]] = {
    "cannot open shared object file": (
        "Kann die Shared-Object-Datei nicht öffnen",
        "Ne peut ouvrir le fichier d'objet partagé",
        "无法打开共享目标文件",
        "no se puede abrir el fichero del objeto compartido",
        "невозможно открыть разделяемый объектный файл",
        "não é possível abrir arquivo compartilhado",
        "impossibile aprire il file oggetto condiviso",
        "共有オブジェクトファイルを開けません",
        "nie można otworzyć pliku obiektu dzielonego",
    ),
    "error while loading shared libraries": (
        "Fehler beim Laden der Shared Libraries",
        "erreur lors du chargement des librairies partagées",
        "载入共享库时出错",
        "error al cargar las bibliotecas compartidas",
        "ошибка при загрузке разделяемых библиотек",
        "erro ao carregar bibliotecas compartilhadas",
        "errore durante il caricamento delle librerie condivise",
        "共有ライブラリのロード中にエラーが発生しました",
        "błąd podczas wczytywania bibliotek dzielonych",
    ),
    "No such file or directory": (
        "Datei oder Verzeichnis nicht gefunden",
        "Aucun fichier ou dossier de ce nom",
        "没有那个文件或目录",
        "No existe el fichero o el directorio",
        "Нет такого файла или каталога",
        "Arquivo ou diretório inexistente",
        "File o directory non esistente",
        "そのようなファイルやディレクトリはありません",
        "Nie ma takiego pliku ani katalogu",
    ),
    "Permission denied": (
        "Keine Berechtigung",
        "Permission non accordée",
        "权限不够",
        "Permiso denegado",
        "Отказано в доступе",
        "Permissão negada",
        "Permesso negato",
        "許可がありません",
        "Brak dostępu",
    ),
    "No space left on device": (
        "Auf dem Gerät ist kein Speicherplatz mehr verfügbar",
        "Aucun espace disponible sur le périphérique",
        "设备上没有空间",
        "No queda espacio en el dispositivo",
        "На устройстве не осталось свободного места",  # noqa: RUF001 - the words of glibc
        "Não há espaço disponível no dispositivo",
        "Spazio esaurito sul device",
        "デバイスに空き領域がありません",
        "Brak miejsca na urządzeniu",
    ),
    "Key was rejected by service": (
        "Der SChlüssel wurde von Dienst zurückgewiesen",
        "La clé a été rejetée par le service",
        "密钥被服务拒绝",
        "La clave fue rechazada por el servicio",
        "Ключ был отвергнут службой",
        "A chave foi rejeitada pelo serviço",
        "La chiave è stata rifiutata dal servizio",
        "キーがサービスによって拒否されました",
        "Klucz został odrzucony przez usługę",
    ),
    "Required key not available": (
        "Der notwendige Schlüssel ist nicht verfügbar",
        "Clé requise non disponible",
        "需要的密钥不存在",
        "La clave requerida no está disponible",
        "Требуемый ключ недоступен",
        "Chave necessária não disponível",
        "La chiave richiesta non è disponibile",
        "要求されたキーが利用できません",
        "Wymagany klucz niedostępny",
    ),
    "Operation not permitted": (
        "Die Operation ist nicht erlaubt",
        "Opération non permise",
        "不允许的操作",
        "Operación no permitida",
        "Операция не позволена",
        "Operação não permitida",
        "Operazione non permessa",
        "許可されていない操作です",
        "Operacja niedozwolona",
    ),
    "No such device": (
        "Kein passendes Gerät gefunden",
        "Aucun périphérique de ce type",
        "没有那个设备",
        "No existe el dispositivo",
        "Нет такого устройства",
        "Dispositivo inexistente",
        "Nessun device corrisponde",
        "そのようなデバイスはありません",
        "Nie ma takiego urządzenia",
    ),
    "Bus error": (
        "Bus-Zugriffsfehler",
        "Erreur du bus",
        "总线错误",
        "Error del bus",
        "Ошибка шины",
        "Erro no barramento",
        "Errore di bus",
        "バスエラー",
        "Błąd szyny",
    ),
    "Exec format error": (
        "Fehler im Format der Programmdatei",
        "Erreur de format pour exec()",
        "可执行文件格式错误",
        "Formato de ejecutable incorrecto",
        "Ошибка формата выполняемого файла",
        "Erro no formato exec",
        "Formato eseguibile non valido",
        "実行形式エラー",
        "Błędny format pliku wykonywalnego",
    ),
    "error: implicit declaration of function": ("错误：隐式声明函数",),  # noqa: RUF001 - GCC, as NVIDIA/open-gpu-kernel-modules#840 prints it
}
ENGLISH: Mapping[str, str] = {
    words: english
    for english, others in SAID.items()
    for words in sorted(others, key=len, reverse=True)  # a longer message may contain a shorter one
}


# "The loader is installed, the driver is not": the second clause omits its verb's complement.
LEFT_OUT = re.compile(
    r"(?P<all>\b(?:is|are|was|were) (?P<state>installed|loaded|passed through|passed"
    r"|present|running|enabled|mounted|there)(?:, but|, and|,|;| but| and| while) [^,.;\n]{1,60}? "
    r"(?:is|are|was|were)) ?(?:not|n['\u2019]t)"
    r"(?=[.,;)]|[ \t]*$)",
    re.MULTILINE,
)


def originals(text: str) -> Mapping[str, str]:
    """Return each reworded line, on single spaces, and its original."""
    lines = text.split("\n") if english(text) != text else []
    pairs = ((" ".join(english(line).split()), " ".join(line.split())) for line in lines)
    return {read: written for read, written in pairs if read != written}


def english(text: str) -> str:
    """Return a text with the C library's words in English, and with omitted words filled in."""
    if len(text) > MOST:
        return text
    for words, meaning in ENGLISH.items():
        if words in text:
            text = text.replace(words, meaning)
    return LEFT_OUT.sub(r"\g<all> not \g<state>", text)
