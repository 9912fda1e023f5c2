import { check, isRecord } from '@x/internal'
import type { Checks } from '@x/internal'
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { assertClientOptions } from '../mcp-client-error.ts'
import type { McpClientError } from '../mcp-client-error.ts'
import { expanded } from './expanded.ts'
import type { Environment } from './expanded.ts'
import { identifierOf, lookupError } from './lookup-error.ts'
import type { McpServer } from './mcp-server.ts'
import {
  argumentsFrom,
  commandFrom,
  environmentFrom,
  FieldError,
  headersFrom,
  secretEnvKeysFrom,
  secretHeaderKeysFrom,
  textFrom,
  urlFrom,
} from './server-fields.ts'
import type { McpServerDirectory } from './server-directory.ts'

export interface McpJsonDirectoryOptions {
  /** What `${VAR}` stands for. @default `process.env`, at the time of the lookup */
  readonly environment?: Environment | undefined
}

const optionChecks: Checks<McpJsonDirectoryOptions & { path: string | URL }> = {
  environment: check.record,
  path: check.required({ ...check.url, takes: 'the path of a file' }),
}

/**
 * The servers of an `mcp.json`: a file with `mcpServers`, as desktop clients use it. The key of an entry
 * is slug and name in one. Its texts may hold `${VAR}` and `${VAR:-default}`. There are no folders.
 *
 * The file is read at each lookup, and of its entries only the one that is asked for is checked.
 *
 * @throws McpClientError from `retrieve`: `NOT_FOUND`, or `CONFIG` for a file or an entry that cannot be
 * used, with the path of the file and the field; never with a value. `CONFIG` at once for a path or an option
 * that cannot be used.
 */
export function mcpJsonDirectory(
  path: string | URL,
  options: McpJsonDirectoryOptions = {},
): McpServerDirectory {
  assertClientOptions('mcpJsonDirectory()', { ...options, path }, { checks: optionChecks })
  return {
    async retrieve(query) {
      const server = identifierOf(query)
      const file = path instanceof URL ? fileURLToPath(path) : path
      const fail = (what: string, cause?: unknown): McpClientError =>
        lookupError('CONFIG', `${file}: ${what}`, { server, cause })
      const servers = serversFrom(await textOf(file, { signal: query.signal, fail }), fail)
      const entry = Object.hasOwn(servers, server) ? servers[server] : undefined
      if (entry === undefined || (isRecord(entry) && entry['disabled'] === true)) {
        throw notFound(server, { file, servers, isDisabled: entry !== undefined })
      }
      const environment = options.environment ?? process.env
      return serverFrom(entry, { name: server, environment, fail })
    },
  }
}

type Fail = (what: string, cause?: unknown) => McpClientError

async function textOf(
  file: string,
  { signal, fail }: { readonly signal: AbortSignal | undefined; readonly fail: Fail },
): Promise<string> {
  try {
    return await readFile(file, { encoding: 'utf8', ...(signal === undefined ? {} : { signal }) })
  } catch (error) {
    if (signal?.aborted === true) throw signal.reason
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown reason'
    throw fail(`cannot be read (${code})`, error)
  }
}

function serversFrom(text: string, fail: Fail): Readonly<Record<string, unknown>> {
  let content: unknown
  try {
    content = JSON.parse(text.replace(/^\uFEFF/, '')) // editors on Windows begin files with it
  } catch (error) {
    const [where = ''] = /\(line \d+ column \d+\)/.exec(String(error)) ?? []
    // Without its cause, which repeats a part of the text: it may be a secret.
    throw fail(`not valid JSON ${where}`.trimEnd())
  }
  const servers = isRecord(content) ? content['mcpServers'] : undefined
  if (!isRecord(servers)) throw fail('mcpServers is not an object of servers')
  return servers
}

interface EntryContext {
  readonly name: string
  readonly environment: Environment
  readonly fail: Fail
}

function serverFrom(entry: unknown, { name, environment, fail }: EntryContext): McpServer {
  const prefix = `mcpServers[${JSON.stringify(name)}]`
  if (!isRecord(entry)) throw fail(`${prefix} is not an object`)
  const isRemote = isGiven(entry['url'])
  if (isRemote === isGiven(entry['command'])) throw fail(`${prefix} needs one of url and command`)
  if (entry['type'] === 'sse') {
    throw fail(`${prefix}.type is the HTTP+SSE transport of 2024-11-05, which is not spoken`)
  }
  /** The field, expanded and checked, if it is there. */
  const take = <T>(field: string, from: (here: string, value: unknown) => T): T | undefined => {
    const given = entry[field]
    if (!isGiven(given)) return undefined
    const here = `${prefix}.${field}`
    const missing = (variable: string): never => {
      throw fail(`${here} needs the environment variable ${variable}, which is not set`)
    }
    const value = withTexts(given, (text) => expanded(text, environment, missing))
    try {
      return from(here, value)
    } catch (error) {
      throw error instanceof FieldError ? fail(error.message, error) : error
    }
  }
  if (isRemote) {
    return {
      slug: name,
      name,
      mcpUrl: take('url', urlFrom),
      headers: take('headers', headersFrom),
      secretHeaderKeys: take('secretHeaderKeys', secretHeaderKeysFrom),
    }
  }
  return {
    slug: name,
    name,
    command: take('command', commandFrom),
    arguments: take('args', argumentsFrom),
    environmentVariables: take('env', (here, value) => environmentFrom(here, value)),
    secretEnvKeys: take('secretEnvKeys', (here, value) => secretEnvKeysFrom(here, value)),
    cwd: take('cwd', textFrom),
  }
}

function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null
}

/** The same, with each text of an array or object in it replaced; only values, not names. */
function withTexts(value: unknown, replace: (text: string) => string): unknown {
  if (typeof value === 'string') return replace(value)
  if (Array.isArray(value)) return value.map((part: unknown) => withTexts(part, replace))
  if (!isRecord(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, part]) => [key, withTexts(part, replace)]),
  )
}

function notFound(
  server: string,
  { file, servers, isDisabled }: { file: string; servers: object; isDisabled: boolean },
): McpClientError {
  const known = Object.keys(servers).join(', ')
  const what = isDisabled
    ? `MCP server "${server}" is disabled`
    : `No MCP server "${server}"; there are: ${known === '' ? 'none' : known}`
  return lookupError('NOT_FOUND', `${file}: ${what}`, { server })
}
