import type { HeadersFunction, HeadersOption } from '@x/mcp-transport'
import type { McpServer } from './directory/server-directory.ts'
import { FieldError, parseEnvironment, parseHeaders } from './server-fields.ts'
import type { SessionScope } from './session-scope.ts'

/**
 * Returns the value of a secret that a config names (`secretHeaderKeys`, `secretEnvKeys`). Called for each name
 * before every request to a URL, and at every start of a program, so cache values that are slow to get. If a value
 * is `undefined` or `''`, nothing is sent or started.
 *
 * Each value is used once. It appears in no error, event, log or status.
 */
export type SecretSource = (
  key: string,
  server: McpServer,
  scope?: SessionScope,
) => string | undefined | Promise<string | undefined>

export interface SecretsQuestion {
  readonly keys: readonly string[]
  readonly ask: (key: string) => string | undefined | Promise<string | undefined>
}

/** Returns the secret variables. @throws FieldError that names all keys without a value, and no value */
export async function secretVariables(
  question: SecretsQuestion,
): Promise<Readonly<Record<string, string>>> {
  return parseEnvironment('secretEnvKeys', await getValues('secretEnvKeys', question))
}

/** Adds the secret headers to other headers. They replace headers of the same name. */
export function withSecretHeaders(
  headers: HeadersOption,
  question: SecretsQuestion,
): HeadersFunction {
  const secretNames = new Set(question.keys.map((key) => key.toLowerCase()))
  return async function headersWithSecrets(request) {
    const values = await getValues('secretHeaderKeys', question)
    const secrets = parseHeaders('secretHeaderKeys', values)
    const plain = typeof headers === 'function' ? await headers(request) : headers
    const others = Object.entries(plain).filter(([name]) => !secretNames.has(name.toLowerCase()))
    return { ...Object.fromEntries(others), ...secrets }
  }
}

async function getValues(
  field: string,
  { keys, ask }: SecretsQuestion,
): Promise<Readonly<Record<string, unknown>>> {
  const found = await Promise.all(
    keys.map(async (key) => {
      try {
        return [key, await ask(key)] as const
      } catch (cause) {
        throw new FieldError(`${field}: the option "secrets" failed for ${key}`, { cause })
      }
    }),
  )
  const missing = found.filter(([, value]) => value === undefined || value === '')
  if (missing.length === 0) return Object.fromEntries(found)
  const names = missing.map(([key]) => key).join(', ')
  throw new FieldError(`${field}: the option "secrets" has no value for ${names}`)
}
