/** Put a sheet of ours into the page, where it is as long as the page. */
export function adoptStyles(text: string): void {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(text);
  document.adoptedStyleSheets.push(sheet);
}
