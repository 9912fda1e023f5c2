import type { ScopedOptions } from '../client-options.ts'
import { Deadline } from '../deadline.ts'
import { findServer } from '../directory/find-server.ts'
import { httpDirectory } from '../directory/http-directory.ts'
import type { McpServer } from '../directory/server-directory.ts'
import { McpClientError } from '../mcp-client-error.ts'
import { isCommandConfig, isNameConfig, isSlugConfig, serverLabel } from '../server-config.ts'
import type { McpServerConfig } from '../server-config.ts'

export interface LocateServerOptions {
  readonly config: McpServerConfig
  readonly options: ScopedOptions
  readonly signal: AbortSignal
  readonly log: (level: 'info' | 'warning', message: string) => void
}

const LOOKUP_MS = 10_000

/**
 * The server that a config means: looked up in the directory where it only has a name.
 *
 * @throws McpClientError `TIMEOUT` after 10 s; what the directory threw
 */
export async function locateServer(setup: LocateServerOptions): Promise<McpServer> {
  const { config, signal } = setup
  using deadline = new Deadline(LOOKUP_MS, signal)
  try {
    return await serverOf(setup, deadline.signal)
  } catch (error) {
    if (signal.aborted || !deadline.signal.aborted) throw error
    const server = setup.options.label ?? serverLabel(config)
    throw new McpClientError('TIMEOUT', `MCP server "${server}" was not found in time`, {
      server,
      outcome: 'not-executed',
      cause: error,
    })
  }
}

async function serverOf(
  { config, options, log }: LocateServerOptions,
  signal: AbortSignal,
): Promise<McpServer> {
  if (isCommandConfig(config)) {
    const { command, args, env, cwd, secretEnvKeys } = config
    return { command, arguments: args, environmentVariables: env, cwd, secretEnvKeys }
  }
  if (!isSlugConfig(config) && !isNameConfig(config)) {
    const { url, secretHeaderKeys } = config
    return { mcpUrl: String(url), secretHeaderKeys }
  }
  const { directory = httpDirectory(), dispatcher } = options
  return findServer({ query: { ...config, dispatcher }, directory, signal, log })
}
