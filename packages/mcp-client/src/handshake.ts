import { abortReason, readPackageVersion } from '@x/internal'
import {
  InitializeResultSchema,
  LATEST_PROTOCOL_VERSION,
  SUPPORTED_PROTOCOL_VERSIONS,
} from '@modelcontextprotocol/sdk/types.js'
import type { ClientCapabilities } from '@modelcontextprotocol/sdk/types.js'
import type { McpClientOptions } from './options.ts'
import { resultOf } from './requests.ts'
import type { ServerConnection } from './requests.ts'

const CLIENT_INFO = { name: 'mcp-client', version: readPackageVersion(import.meta.url) }

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
