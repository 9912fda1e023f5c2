import { isRecord, sharedStorage, untilAborted } from '@x/internal'
import { toConfigError } from '../server-config.ts'
import {
  FieldError,
  parseFields,
  parseHeaders,
  parseJsonObject,
  parseName,
  parseText,
  parseUrl,
  readJsonObject,
  withoutNulls,
} from '../server-fields.ts'
import { getIdentifier } from './server-directory.ts'
import type { McpServer, McpServerDirectory, McpServerQuery } from './server-directory.ts'

/**
 * Replaces parts of what is known about a server. Fields that are not set stay as they are. With `slug` or `name`, that
 * server is looked up instead; give one of them. `headers` replace all headers from the directory.
 */
interface ServerOverride extends Pick<McpServer, 'slug' | 'name' | 'folderPath' | 'headers'> {
  /** Endpoint. The directory is not asked, and its headers are not sent to this endpoint. */
  readonly url?: string | undefined
}

/** Overrides by `mcpServer.{slug or name}.{folderPath}`, or by `mcpServer.{slug or name}` for all folders. */
export type ServerOverrides = Readonly<Record<string, ServerOverride>>

const scope = sharedStorage<ServerOverrides>('mcp-client.overrides.1')

/**
 * Runs `fn` with overrides for the servers that are looked up inside it. They replace the overrides of the
 * environment. A nested call replaces the outer overrides and emits a process warning, because nesting is
 * usually a mistake.
 *
 * A client looks up its server at the first call after it was created or disposed of. The scope of that
 * call counts.
 *
 * @example
 * ```ts
 * import { McpClient, withOverrides } from '@x/mcp-client'
 *
 * await using client = new McpClient({ slug: 'shop' })
 * const overrides = { 'mcpServer.shop': { url: 'http://localhost:3000/mcp' } }
 * await withOverrides(overrides, () => client.callTool('cart_add', { item: 'apples' }))
 * ```
 */
export function withOverrides<T>(overrides: ServerOverrides, fn: () => T): T {
  if (scope.getStore() !== undefined) {
    process.emitWarning(
      'withOverrides() was called inside withOverrides(): the outer overrides are ignored. Merge them into one call',
      { type: 'McpServerOverridesWarning', code: 'MCP_NESTED_OVERRIDES' },
    )
  }
  return scope.run(overrides, fn)
}

export interface FindServerOptions {
  readonly query: McpServerQuery
  readonly directory: McpServerDirectory
  readonly signal: AbortSignal
  readonly log: (level: 'info' | 'warning', message: string) => void
}

/**
 * Applies the current overrides to a query, and looks the server up. Overrides are read here because they
 * are known only when an agent runs, long after its clients were created.
 *
 * @throws what the directory throws; McpClientError `CONFIG` for overrides that cannot be read
 */
export async function findServer(options: FindServerOptions): Promise<McpServer> {
  const { query, directory, signal } = options
  const { slug, name, folderPath } = query
  const override = (await findOverride(options)) ?? {}
  const { url, headers } = override
  const isRenamed = (override.slug ?? override.name) !== undefined
  const wanted = {
    ...(isRenamed ? { slug: override.slug, name: override.name } : { slug, name }),
    folderPath: override.folderPath ?? folderPath,
  }
  if (url !== undefined) return { ...wanted, mcpUrl: url, headers }
  // A directory may ignore its signal.
  const found = directory.retrieve({ ...query, ...wanted, signal })
  const server = await untilAborted(found, signal)
  return headers === undefined ? server : { ...server, headers }
}

/** Returns the override for the folder, else the one for all folders. Logs and skips invalid overrides. */
async function findOverride({
  query,
  signal,
  log,
}: FindServerOptions): Promise<ServerOverride | undefined> {
  const server = getIdentifier(query)
  let overrides: Readonly<Record<string, unknown>> | undefined = scope.getStore()
  overrides ??= await untilAborted(readOverrides(), signal).catch((error: unknown) => {
    throw toConfigError(error, server)
  })
  if (overrides === undefined) return undefined
  const anyFolder = `mcpServer.${server}`
  const { folderPath } = query
  const keys = folderPath === undefined ? [anyFolder] : [`${anyFolder}.${folderPath}`, anyFolder]
  for (const key of keys) {
    if (!Object.hasOwn(overrides, key)) continue
    try {
      return parseOverride(overrides[key])
    } catch (error) {
      if (!(error instanceof FieldError)) throw error
      log('warning', `Override "${key}" is ignored: ${error.message}`)
    }
  }
  log('info', `No override for MCP server "${server}"; tried: ${keys.join(', ')}`)
  return undefined
}

/** Reads the overrides from `MCP_SERVER_OVERRIDES`, else from the file that `MCP_SERVER_OVERRIDES_FILE` names. */
async function readOverrides(): Promise<Readonly<Record<string, unknown>> | undefined> {
  const { MCP_SERVER_OVERRIDES: text, MCP_SERVER_OVERRIDES_FILE: path } = process.env
  if (text !== undefined && text !== '') return parseJsonObject('MCP_SERVER_OVERRIDES', text)
  if (path === undefined || path === '') return undefined
  return readJsonObject(`MCP_SERVER_OVERRIDES_FILE (${path})`, path)
}

const overrideFields = {
  slug: parseName,
  name: parseName,
  folderPath: parseText,
  url: parseUrl,
  headers: parseHeaders,
}

function parseOverride(value: unknown): ServerOverride {
  if (!isRecord(value)) throw new FieldError('it must be an object')
  const override = parseFields(overrideFields, withoutNulls(value))
  if (Object.keys(override).length === 0) {
    throw new FieldError('it must have at least one of slug, name, folderPath, url and headers')
  }
  if (override.slug !== undefined && override.name !== undefined) {
    throw new FieldError('it must not have both slug and name')
  }
  return override
}
