import { settledOrAborted } from '../settled-or-aborted.ts'
import { environmentOverrides } from './environment-overrides.ts'
import type { Environment } from './expanded.ts'
import { identifierOf, lookupError } from './lookup-error.ts'
import type { McpServer } from './mcp-server.ts'
import { overrideOf } from './override-lookup.ts'
import type { OverrideQuestion } from './override-lookup.ts'
import { currentOverrides } from './override-scope.ts'
import { FieldError } from './server-fields.ts'
import type { McpServerDirectory, McpServerQuery } from './server-directory.ts'

export interface FindServerOptions {
  readonly query: McpServerQuery
  readonly directory: McpServerDirectory
  readonly signal: AbortSignal
  readonly log: OverrideQuestion['log']
  /** @default `process.env` */
  readonly environment?: Environment | undefined
}

/**
 * Looks a server up, after what overrides it now: that is known only when an agent runs, long after
 * its clients were made.
 *
 * @throws what the directory throws; McpClientError `CONFIG` for overrides that cannot be read
 */
export async function findServer(options: FindServerOptions): Promise<McpServer> {
  const { query, directory, signal, log, environment = process.env } = options
  const { slug, name, folderPath } = query
  const identifier = identifierOf(query)
  const overrides = currentOverrides() ?? (await read(environment, { identifier, signal }))
  const override =
    overrides === undefined ? undefined : overrideOf(overrides, { identifier, folderPath, log })
  if (override === undefined) return ask(directory, query, signal)
  const isRenamed = (override.slug ?? override.name) !== undefined
  const asked = {
    ...(isRenamed ? { slug: override.slug, name: override.name } : { slug, name }),
    folderPath: override.folderPath ?? folderPath,
  }
  const { url, headers } = override
  if (url !== undefined) return { ...asked, mcpUrl: url, headers }
  const server = await ask(directory, { ...query, ...asked }, signal)
  return headers === undefined ? server : { ...server, headers }
}

/** A directory may not know what a signal is: it shall not keep anybody waiting for that. */
function ask(
  directory: McpServerDirectory,
  query: McpServerQuery,
  signal: AbortSignal,
): Promise<McpServer> {
  return settledOrAborted(directory.retrieve({ ...query, signal }), signal)
}

async function read(
  environment: Environment,
  { identifier, signal }: { readonly identifier: string; readonly signal: AbortSignal },
): Promise<Readonly<Record<string, unknown>> | undefined> {
  try {
    return await settledOrAborted(environmentOverrides(environment), signal)
  } catch (error) {
    if (!(error instanceof FieldError)) throw error
    const message = `The overrides for MCP server "${identifier}" cannot be read: ${error.message}`
    throw lookupError('CONFIG', message, { server: identifier, cause: error })
  }
}
