import { abortReason, readPackageVersion } from '@x/internal'
import {
  EmptyResultSchema,
  InitializeResultSchema,
  LATEST_PROTOCOL_VERSION,
  SUPPORTED_PROTOCOL_VERSIONS,
} from '@modelcontextprotocol/sdk/types.js'
import type { ClientCapabilities } from '@modelcontextprotocol/sdk/types.js'
import { getTransportError } from './errors.ts'
import type { McpClientOptions } from './options.ts'
import { resultOf, sendRequest } from './requests.ts'
import type { ServerConnection } from './requests.ts'

/** A request that changes the state of a session. */
export interface Setting {
  readonly method: string
  readonly params?: Readonly<Record<string, unknown>> | undefined
}

const CLIENT_INFO = { name: 'mcp-client', version: readPackageVersion(import.meta.url) }
/** A session that is lost while its settings are restored is replaced. After so many, the next one gets no settings. */
const MAX_SETTINGS_LOSSES = 2

/**
 * Sends `initialize` and `notifications/initialized`, or nothing if a stored session is resumed.
 *
 * @throws TransportError without an answer; the SDK's `McpError` for an error of the server; the reason of `signal`
 */
export async function shakeHands(
  connection: ServerConnection,
  {
    capabilities,
    clientInfo = CLIENT_INFO,
  }: Pick<McpClientOptions, 'clientInfo'> & { readonly capabilities: ClientCapabilities },
  signal: AbortSignal,
): Promise<void> {
  const params = { protocolVersion: LATEST_PROTOCOL_VERSION, capabilities, clientInfo }
  const answer = await connection.open(params, { signal })
  if (answer === undefined) throw abortReason(signal)
  const { protocolVersion } = InitializeResultSchema.parse(resultOf(answer))
  if (!SUPPORTED_PROTOCOL_VERSIONS.includes(protocolVersion)) {
    throw new Error(`Server's protocol version is not supported: ${protocolVersion}`)
  }
  await connection.notify({ jsonrpc: '2.0', method: 'notifications/initialized' })
}

/**
 * Sends the log level and the subscriptions to a new session, and to the one that replaces it if it is lost. Returns the
 * failure of a setting that is not restored.
 *
 * @throws TransportError if a lost session could not be replaced
 */
export async function restoreSettings(
  connection: ServerConnection,
  settings: readonly Setting[],
  signal: AbortSignal,
): Promise<unknown> {
  for (let losses = 1; ; losses++) {
    const results = await Promise.allSettled(
      settings.map(({ method, params }) =>
        sendRequest(connection, { method, params }, { schema: EmptyResultSchema, signal }),
      ),
    )
    const failures = results.flatMap((one): unknown[] =>
      one.status === 'rejected' ? [one.reason] : [],
    )
    const loss = failures.find((one) => getTransportError(one)?.code === 'SESSION_LOST')
    if (loss === undefined) return failures[0]
    await connection.replaceSession?.(connection.epoch, signal)
    if (losses === MAX_SETTINGS_LOSSES) return loss
  }
}
