import { createMcpHandler } from '@modelcontextprotocol/server'
import { expect, test } from 'vitest'
import { conformanceServer } from './conformance-server.ts'

/** Asks a server of its own, as a client with these capabilities. */
async function ask(
  method: string,
  params: object,
  clientCapabilities: object = {},
): Promise<unknown> {
  const handler = createMcpHandler(() => conformanceServer())
  const meta = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientCapabilities': clientCapabilities,
  }
  const name = Reflect.get(params, 'name') ?? Reflect.get(params, 'uri')
  const response = await handler.fetch(
    new Request('http://localhost/mcp', {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': '2026-07-28',
        'mcp-method': method,
        ...(typeof name === 'string' && { 'mcp-name': name }),
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: { ...params, _meta: meta } }),
    }),
  )
  const body: unknown = await response.json()
  await handler.close()
  return body
}

test('it asks only for what its client can give', async () => {
  const name = 'test_input_required_result_capabilities'
  expect(await ask('tools/call', { name }, { sampling: {} })).toMatchObject({
    result: { inputRequests: { greeting: { method: 'sampling/createMessage' } } },
  })
  expect(await ask('tools/call', { name: 'test_input_required_result_sampling' })).toMatchObject({
    error: { code: -32021, data: { requiredCapabilities: { sampling: {} } } },
  })
})

test('answers may come with the first call, among others that nobody asked for', async () => {
  const name = 'test_input_required_result_elicitation'
  const accepted = { action: 'accept', content: { name: 'Ada' } }
  const inputResponses = { user_name: accepted, other: accepted }
  expect(await ask('tools/call', { name, inputResponses })).toMatchObject({
    result: { content: [{ text: 'Hello, Ada!' }] },
  })
})

test('resources are read by name and by template', async () => {
  expect(await ask('resources/read', { uri: 'test://template/123/data' })).toMatchObject({
    result: { contents: [{ text: expect.stringContaining('"id":"123"') }] },
  })
  expect(await ask('resources/read', { uri: 'test://static-binary' })).toMatchObject({
    result: { contents: [{ mimeType: 'image/png' }] },
  })
})
