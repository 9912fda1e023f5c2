import { check, isRecord } from '@x/internal'
import type { Checks } from '@x/internal'
import { fileURLToPath } from 'node:url'
import { assertClientOptions, notExecuted } from '../errors.ts'
import { toConfigError } from '../server-config.ts'
import {
  commandFields,
  FieldError,
  parseFields,
  parseHttpTransport,
  readJsonObject,
  urlFields,
} from '../server-fields.ts'
import { getIdentifier, unknownServer } from './server-directory.ts'
import type { McpServer, McpServerDirectory } from './server-directory.ts'

const optionChecks: Checks<{ path: string | URL }> = {
  path: check.required({ ...check.url, takes: 'the path of a file' }),
}

/**
 * Directory made from an `mcp.json` file: the `mcpServers` format of desktop clients. The key of an entry is
 * both its slug and its name. Texts may contain `${VAR}` and `${VAR:-default}`, which come from the environment.
 * Folders are ignored.
 *
 * Each lookup reads the file, and checks only the entry of the requested server.
 *
 * @throws McpClientError from `retrieve`: `NOT_FOUND`; `CONFIG` for a file or an entry that cannot be used,
 * with the path of the file and the field, never with a value. `CONFIG` at once for an invalid path.
 * @example
 * ```ts
 * import { McpClient, mcpJsonDirectory } from '@x/mcp-client'
 *
 * const client = new McpClient({ slug: 'shop' }, { directory: mcpJsonDirectory('mcp.json') })
 * ```
 */
export function mcpJsonDirectory(path: string | URL): McpServerDirectory {
  assertClientOptions('mcpJsonDirectory()', { path }, { checks: optionChecks })
  return {
    async retrieve(query) {
      const server = getIdentifier(query)
      const file = path instanceof URL ? fileURLToPath(path) : path
      try {
        const content = await readJsonObject(file, file, query.signal)
        const servers = content['mcpServers']
        if (!isRecord(servers)) throw new FieldError(`${file}: mcpServers must be an object`)
        const entry = Object.hasOwn(servers, server) ? servers[server] : undefined
        const isDisabled = isRecord(entry) && entry['disabled'] === true
        if (entry === undefined || isDisabled) {
          const what = isDisabled
            ? `MCP server "${server}" is disabled: remove "disabled" from its entry`
            : unknownServer(server, Object.keys(servers))
          throw notExecuted('NOT_FOUND', `${file}: ${what}`, { server })
        }
        const prefix = `${file}: mcpServers[${JSON.stringify(server)}]`
        return { slug: server, name: server, ...parseEntry(entry, prefix) }
      } catch (error) {
        throw toConfigError(error, server)
      }
    },
  }
}

function parseEntry(entry: unknown, prefix: string): McpServer {
  if (!isRecord(entry)) throw new FieldError(`${prefix} must be an object`)
  const isRemote = isGiven(entry['url'])
  if (isRemote === isGiven(entry['command'])) {
    throw new FieldError(`${prefix} must have either url or command`)
  }
  for (const name of ['type', 'transport']) {
    if (entry[name] === 'sse') parseHttpTransport(`${prefix}.${name}`, 'sse')
  }
  const expanded = (fields: object): Readonly<Record<string, unknown>> => {
    const given = Object.keys(fields).filter((name) => isGiven(entry[name]))
    return Object.fromEntries(
      given.map((name) => [name, expandTexts(entry[name], `${prefix}.${name}`)]),
    )
  }
  if (isRemote) {
    const { url, ...others } = parseFields(urlFields, expanded(urlFields), `${prefix}.`)
    return { mcpUrl: url, ...others }
  }
  const given = parseFields(commandFields, expanded(commandFields), `${prefix}.`)
  const { args, env, ...others } = given
  return { ...others, arguments: args, environmentVariables: env }
}

function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null
}

/** `${NAME}`, `${env:NAME}` and `${NAME:-default}`, as in desktop clients. */
const REFERENCE = /\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}/g

/** Expands all texts in a value, but not the keys of objects. */
function expandTexts(value: unknown, field: string): unknown {
  if (typeof value === 'string') return expandText(value, field)
  if (Array.isArray(value)) return value.map((part: unknown) => expandTexts(part, field))
  if (!isRecord(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, part]) => [key, expandTexts(part, field)]),
  )
}

/** Replaces the references once: references in the value of a variable stay as they are. */
function expandText(text: string, field: string): string {
  return text.replaceAll(REFERENCE, (_reference, name: string, fallback: string | undefined) => {
    const value = process.env[name]
    // As in a shell, `:-` also replaces an empty value.
    if (fallback !== undefined) return value === undefined || value === '' ? fallback : value
    if (value !== undefined) return value
    throw new FieldError(`${field} needs the environment variable ${name}: set it`)
  })
}
