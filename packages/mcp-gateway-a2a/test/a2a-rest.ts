import type { IncomingMessage, ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'

import { SendMessageRequest, SendMessageResponse, StreamResponse, Task } from '@a2a-js/sdk'
import { A2AError } from '@a2a-js/sdk/errors'
import { ServerCallContext, type A2ARequestHandler } from '@a2a-js/sdk/server'

export interface RestAgentOptions {
  readonly handler: () => A2ARequestHandler
  /** Told the method that JSON-RPC would have had. */
  readonly onMethod: (method: string) => void
  /** An open stream, to be cut. */
  readonly onStream: (response: ServerResponse) => void
}

/** The HTTP+JSON binding of A2A 1.0 ("HTTP+JSON/REST Protocol Binding"), as far as a client of tasks needs it. */
export async function answerRest(
  request: IncomingMessage,
  response: ServerResponse,
  { handler, onMethod, onStream }: RestAgentOptions,
): Promise<void> {
  const { pathname, searchParams } = new URL(request.url ?? '', 'http://agent.test')
  const [, id = '', action = ''] = /^\/rest\/tasks\/([^/:]+)(?::(\w+))?$/.exec(pathname) ?? []
  const context = new ServerCallContext({ requestedVersion: '1.0' })
  const message = async (): Promise<SendMessageRequest> =>
    SendMessageRequest.fromJSON(JSON.parse(await text(request)))
  const task = (value: Task): void => sendJson(response, 200, Task.toJSON(value))
  try {
    if (pathname === '/rest/message:send') {
      onMethod('SendMessage')
      const value = await handler().sendMessage(await message(), context)
      const payload =
        'messageId' in value
          ? ({ $case: 'message', value } as const)
          : ({ $case: 'task', value } as const)
      sendJson(response, 200, SendMessageResponse.toJSON({ payload }))
    } else if (pathname === '/rest/message:stream') {
      onMethod('SendStreamingMessage')
      onStream(response)
      await sendEvents(response, handler().sendMessageStream(await message(), context))
    } else if (action === 'subscribe') {
      onMethod('SubscribeToTask')
      onStream(response)
      await sendEvents(response, handler().resubscribe({ tenant: '', id }, context))
    } else if (action === 'cancel') {
      onMethod('CancelTask')
      task(await handler().cancelTask({ tenant: '', id, metadata: undefined }, context))
    } else {
      onMethod('GetTask')
      const historyLength = Number(searchParams.get('historyLength'))
      task(await handler().getTask({ tenant: '', id, historyLength }, context))
    }
  } catch (error) {
    sendError(response, error)
  }
}

async function sendEvents(
  response: ServerResponse,
  events: AsyncIterable<StreamResponse>,
): Promise<void> {
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  response.flushHeaders()
  for await (const event of events) {
    response.write(`data: ${JSON.stringify(StreamResponse.toJSON(event))}\n\n`)
  }
  response.end()
}

function sendError(response: ServerResponse, error: unknown): void {
  const details = error instanceof A2AError ? [error.toErrorInfo()] : []
  const message = error instanceof Error ? error.message : 'It failed'
  if (response.headersSent) return void response.end()
  sendJson(response, 400, { error: { code: 400, status: 'FAILED_PRECONDITION', message, details } })
}

function sendJson(response: ServerResponse, status: number, value: unknown): void {
  response.writeHead(status, { 'content-type': 'application/a2a+json' }).end(JSON.stringify(value))
}
