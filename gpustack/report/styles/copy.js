for (const typed of document.querySelectorAll("pre")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  button.addEventListener("click", () => {
    const chosen = getSelection();
    chosen.selectAllChildren(typed);
    document.execCommand("copy");
    chosen.removeAllRanges();
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 2000);
  });
  const row = document.createElement("div");
  row.className = "typed";
  typed.replaceWith(row);
  row.append(button, typed);
}
