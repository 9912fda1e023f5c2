import type { ScopedOptions } from '../client-options.ts'
import type { McpServer } from '../directory/server-directory.ts'
import {
  parseArguments,
  parseCommand,
  parseEnvironment,
  FieldError,
  parseHeaders,
  parseSecretEnvKeys,
  parseSecretHeaderKeys,
  parseFolder,
  parseUrl,
} from '../server-fields.ts'
import { McpClientError } from '../mcp-client-error.ts'
import { assertSecretSource, serverLabel } from '../server-config.ts'
import type { McpServerConfig } from '../server-config.ts'
import type { ServerCommand } from '../stdio/start-child.ts'

/** For whom a server is looked at. */
export interface ServerUse {
  readonly config: McpServerConfig
  readonly options: ScopedOptions
}

/**
 * How a server is started that is a program; undefined for one at a URL. A directory may be anything: what
 * it says of a program is checked before one is started.
 *
 * @throws McpClientError `CONFIG`
 */
export function commandOf(
  server: McpServer,
  { config, options }: ServerUse,
): ServerCommand | undefined {
  const { mcpUrl, command, arguments: args, environmentVariables: env, cwd } = server
  const { secretEnvKeys } = server
  const hasUrl = mcpUrl !== undefined && mcpUrl !== null && mcpUrl !== ''
  if (hasUrl || command === undefined || command === '') return undefined
  if (options.era === 'modern') {
    throw configError(
      { config, options },
      'is on stdio, which is spoken to in the revisions with sessions only',
    )
  }
  try {
    if (secretEnvKeys !== undefined) parseSecretEnvKeys('secretEnvKeys', secretEnvKeys)
    assertSecretSource({ secretEnvKeys }, options.secrets)
    return {
      command: parseCommand('command', command),
      args: parseArguments('args', args ?? []),
      env: parseEnvironment('env', env ?? {}),
      cwd: cwd === undefined ? undefined : parseFolder('cwd', cwd),
    }
  } catch (cause) {
    if (!(cause instanceof FieldError)) throw cause
    throw configError({ config, options }, `cannot be used: ${cause.message}`, { cause })
  }
}

/**
 * Where a server is that is no program. Also checks what a directory says of headers: an error of the
 * transport would not name the server.
 *
 * @throws McpClientError `CONFIG`
 */
export function urlOf(server: McpServer, { config, options }: ServerUse): string {
  const { mcpUrl, headers, secretHeaderKeys } = server
  if (mcpUrl === undefined || mcpUrl === null || mcpUrl === '') {
    throw configError({ config, options }, 'has no URL in the directory')
  }
  try {
    if (headers !== undefined) parseHeaders('headers', headers)
    if (secretHeaderKeys !== undefined) parseSecretHeaderKeys('secretHeaderKeys', secretHeaderKeys)
    assertSecretSource({ secretHeaderKeys }, options.secrets)
    return parseUrl('mcpUrl', mcpUrl)
  } catch (cause) {
    if (!(cause instanceof FieldError)) throw cause
    throw configError({ config, options }, `cannot be used: ${cause.message}`, { cause })
  }
}

/** Something that was said of a server cannot be used: nothing was sent, and no program started. */
export function configError(
  { config, options }: ServerUse,
  what: string,
  reason: ErrorOptions = {},
): McpClientError {
  const server = options.label ?? serverLabel(config)
  return new McpClientError('CONFIG', `MCP server "${server}" ${what}`, {
    ...reason,
    server,
    outcome: 'not-executed',
  })
}
