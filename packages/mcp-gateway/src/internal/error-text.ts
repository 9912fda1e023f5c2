import { redacted } from './redacted.ts'

const MAX_CAUSES = 4
const MAX_CHARS = 2000

/** Names and messages of an error and its causes, without credentials. */
export function errorText(error: unknown): string {
  const texts: string[] = []
  for (let at: unknown = error; at !== undefined && texts.length < MAX_CAUSES;) {
    texts.push(textOf(at))
    at = at instanceof Error ? at.cause : undefined
  }
  return redacted(texts.join(' ← ')).slice(0, MAX_CHARS)
}

const MAX_STACK_CHARS = 8000

/** Stack of an error, without credentials; `undefined` if it has none. */
export function stackText(error: unknown): string | undefined {
  const stack = error instanceof Error ? error.stack : undefined
  return stack === undefined ? undefined : redacted(stack.slice(0, MAX_STACK_CHARS))
}

function textOf(error: unknown): string {
  if (error instanceof Error) return `${error.name}: ${error.message}`
  return typeof error === 'string' ? error : 'something that is no error was thrown'
}
