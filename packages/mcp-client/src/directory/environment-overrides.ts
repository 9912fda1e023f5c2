import { isRecord } from '@x/internal'
import { readFile } from 'node:fs/promises'
import type { Environment } from './expanded.ts'
import { FieldError } from './server-fields.ts'

const TEXT = 'MCP_SERVER_OVERRIDES'
const FILE = 'MCP_SERVER_OVERRIDES_FILE'

/**
 * The overrides that the environment holds: as JSON in `MCP_SERVER_OVERRIDES`, else in the file that
 * `MCP_SERVER_OVERRIDES_FILE` names. Entries are not checked yet.
 *
 * @throws FieldError if they are there and cannot be read: whoever set them relies on them
 */
export async function environmentOverrides(
  environment: Environment,
): Promise<Readonly<Record<string, unknown>> | undefined> {
  const text = environment[TEXT]
  if (text !== undefined && text !== '') return overridesFrom(TEXT, text)
  const path = environment[FILE]
  if (path === undefined || path === '') return undefined
  return overridesFrom(`${FILE} (${path})`, await contentOf(path))
}

async function contentOf(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (cause) {
    const code = cause instanceof Error && 'code' in cause ? String(cause.code) : 'unknown reason'
    throw new FieldError(`${FILE} (${path}) cannot be read (${code})`, { cause })
  }
}

function overridesFrom(where: string, text: string): Readonly<Record<string, unknown>> {
  let content: unknown
  try {
    content = JSON.parse(text.replace(/^\uFEFF/, ''))
  } catch {
    // The parser's message repeats a part of the text, which may be a secret.
    throw new FieldError(`${where} is not valid JSON`)
  }
  if (!isRecord(content)) throw new FieldError(`${where} is not an object`)
  return content
}
