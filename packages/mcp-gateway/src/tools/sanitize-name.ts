/**
 * Text as a name that every client and every model provider takes: `[a-z_][a-z0-9_]*`. What a letter looks
 * like in another script is not guessed: it goes.
 */
export function sanitizeName(text: string): string {
  const name = sanitizePart(text)
  if (name === '') return 'unnamed_tool'
  return /^[0-9]/.test(name) ? `tool_${name}` : name
}

/** The same for a part of a name, of which nothing may be left. */
export function sanitizePart(text: string): string {
  return text
    .toLowerCase()
    .replaceAll(/[\s-]/g, '_')
    .replaceAll(/[^a-z0-9_]/g, '')
    .replaceAll(/_+/g, '_')
    .replaceAll(/^_|_$/g, '')
}

/** `WeatherAgent` → `Weather_Agent`, `HTTPServer2` → `HTTP_Server2`. */
export function splitCamelCase(text: string): string {
  return text.replaceAll(/([a-z0-9])([A-Z])/g, '$1_$2').replaceAll(/([A-Z])(?=[A-Z][a-z])/g, '$1_')
}
