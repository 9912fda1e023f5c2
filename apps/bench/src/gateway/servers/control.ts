import type { IncomingMessage, ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { isObject } from '../../client/checks.ts'
import { echoOf } from '../protocol.ts'
import { listen } from './listen.ts'

/** The control: reads a call, answers it with as much as the others do, and knows no protocol. */
export function serveControl(): Promise<number> {
  return listen((request, response) => void answer(request, response))
}

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const call: unknown = JSON.parse(await text(request))
  if (!isObject(call) || call['id'] === undefined) {
    response.writeHead(202).end()
    return
  }
  const body = JSON.stringify({
    jsonrpc: '2.0',
    id: call['id'],
    result: { content: [{ type: 'text', text: echoOf(messageOf(call)) }] },
  })
  const headers = {
    'content-type': 'application/json',
    'content-length': body.length,
    'mcp-session-id': 'control',
  }
  response.writeHead(200, headers).end(body)
}

function messageOf({ params }: Readonly<Record<string, unknown>>): string {
  const given = isObject(params) ? params['arguments'] : undefined
  return isObject(given) ? String(given['message']) : ''
}
