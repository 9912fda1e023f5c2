import { createDispatcher } from '@x/mcp-transport'
import type { Dispatcher } from 'undici'
import { connect } from './connection.ts'
import type { Behaviour, Run } from './run.ts'

/**
 * Calls the tool whose stream the server closes before the answer. The server answers on whatever GET
 * it sees while the call is open: the listening stream, which we open beside it, has to be there before.
 */
async function callAfterListening(run: Run): Promise<void> {
  const listening = Promise.withResolvers<void>()
  const own = createDispatcher()
  const dispatcher = own.compose(
    (dispatch) => (options, handler) =>
      dispatch(options, options.method === 'GET' ? watched(handler, listening.resolve) : handler),
  )
  try {
    await using connection = await connect(run, { dispatcher })
    await listening.promise
    const { tools } = await connection.client.listTools()
    for (const { name } of tools) await connection.client.callTool({ name, arguments: {} })
  } finally {
    await own.destroy()
  }
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

/** Streams that end before the answer has come. */
export const streams: Readonly<Record<string, Behaviour>> = {
  'sse-retry': callAfterListening,
}
