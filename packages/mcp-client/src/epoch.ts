import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js'
import type { StreamableHttpTransport } from '@x/mcp-transport'

/** One session with the server, ready for requests. Immutable: a later session is another epoch. */
export interface Epoch {
  readonly number: number
  readonly client: Client
  readonly transport: StreamableHttpTransport
  readonly sessionId: string | undefined
  /** Went on from a stored record, without a handshake. */
  readonly isResumed: boolean
}

export interface OpenEpochOptions {
  readonly transport: StreamableHttpTransport
  readonly clientInfo: { readonly name: string; readonly version: string }
  readonly request: { readonly signal: AbortSignal; readonly timeout: number }
  readonly onToolsChanged: () => void
  /** Trouble that belongs to no request. */
  readonly onError: (error: Error) => void
  readonly onClose: () => void
}

/**
 * Phase 2: the MCP handshake over what phase 1 has made, two small requests on connections that are
 * open already; or none at all where a stored session goes on. A client is made for each, because one
 * that has lost its session cannot be connected again in place (mastra #19862).
 */
export async function openEpoch(options: OpenEpochOptions): Promise<Epoch> {
  const { transport, clientInfo, request, onToolsChanged, onError, onClose } = options
  const client = new Client(clientInfo)
  client.onerror = onError
  client.setNotificationHandler(ToolListChangedNotificationSchema, onToolsChanged)
  try {
    await client.connect(transport, request)
    request.signal.throwIfAborted()
  } catch (error) {
    await client.close()
    throw error
  }
  client.onclose = onClose
  const { epoch: number = 0, sessionId, isResumed } = transport
  return { number, client, transport, sessionId, isResumed }
}
