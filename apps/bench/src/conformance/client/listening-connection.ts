import { createDispatcher } from '@x/mcp-transport'
import type { Dispatcher } from 'undici'
import { prepareConnection } from './connection.ts'
import type { Connection, ConnectOptions } from './connection.ts'
import type { Run } from './run.ts'

/**
 * A connection whose listening stream (GET) is open. Where a server uses that stream for what belongs to
 * a call, a call that overtakes it is lost: the SDK's server drops what it cannot send.
 */
export async function connectAndListen(
  run: Run,
  options: ConnectOptions = {},
): Promise<Connection> {
  const listening = Promise.withResolvers<void>()
  const own = createDispatcher()
  const dispatcher = own.compose(
    (dispatch) => (request, handler) =>
      dispatch(request, request.method === 'GET' ? watched(handler, listening.resolve) : handler),
  )
  const { client, transport } = prepareConnection(run, { ...options, dispatcher })
  const close = async (): Promise<void> => {
    await client.close()
    await own.destroy() // the transport closes only what it made itself
  }
  try {
    await client.connect(transport)
    await listening.promise
  } catch (error) {
    await close()
    throw error
  }
  return { client, transport, [Symbol.asyncDispose]: close }
}

/** The same handler, and a word when the response head has come. */
function watched(
  handler: Dispatcher.DispatchHandler,
  onHead: () => void,
): Dispatcher.DispatchHandler {
  return {
    onRequestStart: (...args) => handler.onRequestStart?.(...args),
    onResponseStart: (...args) => {
      onHead()
      handler.onResponseStart?.(...args)
    },
    onResponseData: (...args) => handler.onResponseData?.(...args),
    onResponseEnd: (...args) => handler.onResponseEnd?.(...args),
    onResponseError: (...args) => handler.onResponseError?.(...args),
  }
}
