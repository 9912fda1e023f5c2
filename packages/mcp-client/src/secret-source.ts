import type { HeadersFunction, HeadersOption } from '@x/mcp-transport'
import type { McpServer } from './directory/server-directory.ts'
import { parseEnvironment, FieldError, parseHeaders } from './server-fields.ts'
import type { SessionScope } from './session-scope.ts'

/**
 * Gives the values of secrets that a config only names (`secretHeaderKeys`, `secretEnvKeys`). Asked for each
 * name before every request to a URL, and at every start of a program: what is slow should be kept there.
 * `undefined` and `''` mean that there is none; then nothing is sent, and nothing started.
 *
 * The values go into a copy, for that one use. They are in no error, event, log or status.
 */
export type SecretSource = (
  key: string,
  server: McpServer,
  scope?: SessionScope,
) => string | undefined | Promise<string | undefined>

export type Secrets = Readonly<Record<string, string>>

export interface SecretsQuestion {
  readonly keys: readonly string[]
  readonly ask: (key: string) => string | undefined | Promise<string | undefined>
}

/** @throws FieldError that names all keys without a value, and no value */
export async function secretVariables(question: SecretsQuestion): Promise<Secrets> {
  return parseEnvironment('secretEnvKeys', await valuesOf('secretEnvKeys', question))
}

/** The headers with the secrets, which take the place of those of the same name. */
export function withSecretHeaders(
  headers: HeadersOption,
  question: SecretsQuestion,
): HeadersFunction {
  const taken = new Set(question.keys.map((key) => key.toLowerCase()))
  return async function headersWithSecrets(request) {
    const values = await valuesOf('secretHeaderKeys', question)
    const secrets = parseHeaders('secretHeaderKeys', values)
    const plain = typeof headers === 'function' ? await headers(request) : headers
    const others = Object.entries(plain).filter(([name]) => !taken.has(name.toLowerCase()))
    return { ...Object.fromEntries(others), ...secrets }
  }
}

async function valuesOf(
  field: string,
  { keys, ask }: SecretsQuestion,
): Promise<Readonly<Record<string, unknown>>> {
  const found = await Promise.all(
    keys.map(async (key) => {
      try {
        return [key, await ask(key)] as const
      } catch (cause) {
        throw new FieldError(`${field}: the secret source failed at ${key}`, { cause })
      }
    }),
  )
  const missing = found.filter(([, value]) => value === undefined || value === '')
  if (missing.length === 0) return Object.fromEntries(found)
  const names = missing.map(([key]) => key).join(', ')
  throw new FieldError(`${field} names what the secret source does not have: ${names}`)
}
