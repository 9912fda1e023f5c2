/** What `${VAR}` is replaced from. A variable that is there and undefined is not set. */
export type Environment = Readonly<Record<string, string | undefined>>

/** `${NAME}`, `${env:NAME}`, `${NAME:-default}`: the forms that desktop clients know. */
const REFERENCE = /\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}/g

/**
 * A text with its references to the environment replaced, once: what a variable holds is not looked
 * through again. Where a variable is not set, its name is told.
 */
export function expanded(
  text: string,
  environment: Environment,
  onMissing: (name: string) => void,
): string {
  return text.replaceAll(REFERENCE, (reference, name: string, fallback: string | undefined) => {
    const value = environment[name]
    // As in a shell, `:-` stands in for what is empty, too.
    if (fallback !== undefined) return value === undefined || value === '' ? fallback : value
    if (value !== undefined) return value
    onMissing(name)
    return reference
  })
}
