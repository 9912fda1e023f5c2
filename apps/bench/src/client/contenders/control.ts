import { createParser } from 'eventsource-parser'
import { Agent, request } from 'undici'
import { checkResult, isObject } from '../checks.ts'
import type { Contender } from '../contenders.ts'
import { ARGS, CLIENT_INFO, PROTOCOL_VERSION, TOOL } from '../protocol.ts'

/** `undici.request` and the parsing of what comes back: no session, no errors, no deadline. */
export async function makeControl(url: string): Promise<Contender> {
  const dispatcher = new Agent({ allowH2: false, headersTimeout: 0, bodyTimeout: 0 })
  const plain = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
  }
  let lastId = 0

  async function post(
    message: object,
    headers: Record<string, string>,
  ): ReturnType<typeof request> {
    const body = JSON.stringify({ jsonrpc: '2.0', id: ++lastId, ...message })
    return request(url, { dispatcher, method: 'POST', headers, body })
  }

  const params = { protocolVersion: PROTOCOL_VERSION, capabilities: {}, clientInfo: CLIENT_INFO }
  const opened = await post({ method: 'initialize', params }, plain)
  await opened.body.dump()
  const headers = {
    ...plain,
    'mcp-session-id': String(opened.headers['mcp-session-id']),
    'mcp-protocol-version': PROTOCOL_VERSION,
  }
  const call = { method: 'tools/call', params: { name: TOOL, arguments: ARGS } }
  return {
    async call() {
      const response = await post(call, headers)
      const text = await response.body.text()
      const isStream = response.headers['content-type'] === 'text/event-stream'
      const message: unknown = JSON.parse(isStream ? dataOf(text) : text)
      checkResult(isObject(message) ? message['result'] : undefined)
    },
    [Symbol.asyncDispose]: () => dispatcher.destroy(),
  }
}

function dataOf(text: string): string {
  let found = ''
  const parser = createParser({ onEvent: ({ data }) => (found = data) })
  parser.feed(text)
  return found
}
