import { text } from 'node:stream/consumers'
import { isObject } from '../../client/checks.ts'
import { echoOf } from '../protocol.ts'
import { listen } from './listen.ts'

/** The control: reads a call, answers it with as much as the others do, and knows no protocol. */
export function serveControl(): Promise<number> {
  return listen((request, response) => {
    void text(request).then((body) => {
      const call: unknown = JSON.parse(body)
      if (!isObject(call) || call['id'] === undefined) return void response.writeHead(202).end()
      const answer = JSON.stringify({
        jsonrpc: '2.0',
        id: call['id'],
        result: { content: [{ type: 'text', text: echoOf(messageOf(call)) }] },
      })
      const headers = {
        'content-type': 'application/json',
        'content-length': answer.length,
        'mcp-session-id': 'control',
      }
      response.writeHead(200, headers).end(answer)
    })
  })
}

function messageOf({ params }: Readonly<Record<string, unknown>>): string {
  const given = isObject(params) ? params['arguments'] : undefined
  return isObject(given) ? String(given['message']) : ''
}
