import { McpConnection, SessionInfo } from '../src/index.ts'
import type {
  Answer,
  ConnectionOwner,
  InputRequest,
  StreamableHttpTransportOptions,
  TransportError,
} from '../src/index.ts'

/** A connection that has opened its session. */
export async function connectionTo(
  url: string,
  options: StreamableHttpTransportOptions = {},
  owner: Partial<ConnectionOwner> & { readonly capabilities?: object } = {},
): Promise<McpConnection> {
  const { capabilities = {}, ...given } = owner
  const connection = new McpConnection(url, options, {
    sessionInfo: new SessionInfo(),
    onNotification: () => {},
    onServerRequest: () => {},
    onError: () => {},
    ...given,
  })
  await connection.load()
  const clientInfo = { name: 'raw', version: '1' }
  await connection.open({ protocolVersion: '2025-11-25', capabilities, clientInfo })
  return connection
}

/** Resolves with the outcome of a call. */
export function outcomeOf(
  connection: McpConnection,
  request: InputRequest,
  options: Parameters<McpConnection['createCall']>[1] = {},
): Promise<Answer | TransportError> {
  return new Promise((resolve) => {
    void connection.send(connection.createCall(request, options, resolve))
  })
}
