import type { Contender } from './contenders.ts'
import { ARGS, checkResult, CLIENT_INFO, PROTOCOL_VERSION, TOOL } from './messages.ts'

/** The part of a transport for the SDK's `Client` that is measured. */
interface Transport {
  onmessage?: ((message: never) => void) | undefined
  onerror?: ((error: Error) => void) | undefined
  start(): Promise<void>
  send(message: Message): Promise<void>
  close(): Promise<void>
  setProtocolVersion?: ((version: string) => void) | undefined
}

interface Message {
  readonly jsonrpc: '2.0'
  readonly id?: number
  readonly method: string
  readonly params?: Record<string, unknown>
}

interface Call {
  readonly id: number
  readonly resolve: (message: { result?: unknown }) => void
  readonly reject: (error: unknown) => void
}

/** Calls the tool through a transport, with a bare `onmessage` that costs almost nothing. */
export async function overTransport(transport: Transport): Promise<Contender> {
  // Few calls are in flight. A Map would keep its outgrown tables until the next full garbage collection.
  const calls: Call[] = []
  let lastId = 0
  transport.onmessage = (message: { id?: number; result?: unknown }) => {
    const index = calls.findIndex(({ id }) => id === message.id)
    if (index >= 0) calls.splice(index, 1)[0]?.resolve(message)
  }
  transport.onerror = (error) => {
    for (const call of calls) call.reject(error)
  }
  const request = (
    method: string,
    params: Record<string, unknown>,
  ): Promise<{ result?: unknown }> =>
    new Promise((resolve, reject) => {
      const id = ++lastId
      calls.push({ id, resolve, reject })
      transport.send({ jsonrpc: '2.0', id, method, params }).catch(reject)
    })

  await transport.start()
  const params = { protocolVersion: PROTOCOL_VERSION, capabilities: {}, clientInfo: CLIENT_INFO }
  await request('initialize', params)
  transport.setProtocolVersion?.(PROTOCOL_VERSION)
  await transport.send({ jsonrpc: '2.0', method: 'notifications/initialized' })
  return {
    async call() {
      const { result } = await request('tools/call', { name: TOOL, arguments: ARGS })
      checkResult(result)
    },
    [Symbol.asyncDispose]: () => transport.close(),
  }
}
