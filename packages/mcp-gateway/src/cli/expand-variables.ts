export type Environment = Readonly<Record<string, string | undefined>>

export interface Expansion {
  readonly text: string
  /** Whether there was something to expand. */
  readonly isExpanded: boolean
  /** Variables that are not set, and have no default. */
  readonly missing: readonly string[]
  /** What begins like a variable and is none. */
  readonly malformed: readonly string[]
}

/** `${NAME}` and `${NAME:-default}`, where the default also stands for an empty value; `$${` is `${`. */
export function expandVariables(text: string, env: Environment): Expansion {
  const missing: string[] = []
  const malformed: string[] = []
  let isExpanded = false
  const expanded = text.replaceAll(PATTERN, (found: string, ...groups: unknown[]) => {
    const [name, fallback] = groups
    isExpanded = true
    if (found === '$${') return '${'
    if (typeof name !== 'string') {
      malformed.push(found)
      return found
    }
    const value = env[name]
    if (typeof fallback === 'string') return value === undefined || value === '' ? fallback : value
    if (value === undefined) missing.push(name)
    return value ?? ''
  })
  return { text: expanded, isExpanded, missing, malformed }
}

const PATTERN = /\$\$\{|\$\{(?:([A-Za-z_]\w*)(?::-([^}]*))?\})?/g
