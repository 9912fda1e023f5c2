import { json } from 'node:stream/consumers'

import { isRecord } from '@x/internal'
import { startTestServer, type TestServer } from '@x/mcp-testing'

/** A model server that calls the first tool once, and then says what it was told. Only as much of the protocol as graphs use. */
export function startFakeAnthropic(): Promise<TestServer> {
  let count = 0
  return startTestServer((request, response) => {
    const answer = async (): Promise<void> => {
      const body = await json(request)
      response.setHeader('content-type', 'text/event-stream')
      for (const { type, ...data } of eventsOf(isRecord(body) ? body : {}, (count += 1))) {
        response.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`)
      }
      response.end()
    }
    void answer()
  }, '')
}

function eventsOf(
  { messages, tools }: Readonly<Record<string, unknown>>,
  count: number,
): readonly { readonly type: string }[] {
  const told = JSON.stringify(messages)
  const [tool]: readonly unknown[] = Array.isArray(tools) ? tools : []
  const isCall = isRecord(tool) && !told.includes('tool_result')
  const start = isCall
    ? { type: 'tool_use', id: 'call_1', name: tool['name'], input: {} }
    : { type: 'text', text: '' }
  const delta = isCall
    ? { type: 'input_json_delta', partial_json: '{"query":"figs"}' }
    : { type: 'text_delta', text: told.includes('Nothing about figs') ? 'No figs' : 'Hello' }
  const usage = { input_tokens: 1, output_tokens: 1 }
  const message = { id: `msg_${count}`, type: 'message', role: 'assistant', content: [], usage }
  const index = 0
  return [
    { type: 'message_start', message },
    { type: 'content_block_start', index, content_block: start },
    { type: 'content_block_delta', index, delta },
    { type: 'content_block_stop', index },
    { type: 'message_delta', delta: { stop_reason: isCall ? 'tool_use' : 'end_turn' }, usage },
    { type: 'message_stop' },
  ] as readonly { readonly type: string }[]
}
