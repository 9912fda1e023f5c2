import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { MessagesAnnotation, START, StateGraph } from '@langchain/langgraph'
import { beforeAll, expect, test } from 'vitest'
import type { AnswerUi } from '../src/agents/agent.ts'
import { whenSchemasChecked } from '../src/agents/schemas.ts'
import { createGateway, type GatewayOptions } from '../src/index.ts'

beforeAll(whenSchemasChecked)

const cart: AnswerUi = {
  resourceUri: 'ui://shop/cart',
  page: '<h1>Cart</h1>',
  meta: { prefersBorder: true },
}
const CART = {
  type: 'resource',
  resource: {
    uri: 'ui://shop/cart',
    mimeType: 'text/html;profile=mcp-app',
    text: '<h1>Cart</h1>',
    _meta: { ui: { prefersBorder: true } },
  },
}

/** Calls an agent that answers with a text and this user interface. */
async function answerWith(
  ui: AnswerUi,
  { mode = 'auto', ...options }: GatewayOptions & { readonly mode?: 'legacy' | 'auto' } = {},
) {
  const graph = new StateGraph(MessagesAnnotation)
    .addNode('answer', () => ({}))
    .addEdge(START, 'answer')
    .compile()
  const output = () => ({ text: 'Here is your cart.', ui })
  await using gateway = createGateway({
    agents: { shop: { graph, description: 'Sells', output } },
    log: false,
    ...options,
  })
  const { url } = await gateway.listen({ port: 0 })
  const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode } })
  await client.connect(new StreamableHTTPClientTransport(new URL(url)))
  const result = await client.callTool({ name: 'shop', arguments: { message: 'Show my cart' } })
  await client.close()
  return result
}

test.each(['legacy', 'auto'] as const)(
  'relays the user interface of an answer after its text, %s',
  async (mode) => {
    const { content, _meta: meta } = await answerWith(cart, { mode })
    expect(content).toEqual([{ type: 'text', text: 'Here is your cart.' }, CART])
    expect(meta).toMatchObject({ ui: { resourceUri: 'ui://shop/cart' } })
  },
)

test('leaves out a user interface that is larger than a result may be, and says so', async () => {
  const large = { ...cart, page: 'x'.repeat(200_000) }
  const { content, _meta: meta } = await answerWith(large, { inline: { resultMaxBytes: 100_000 } })
  expect(content).toEqual([
    { type: 'text', text: 'Here is your cart.' },
    { type: 'text', text: expect.stringMatching(/user interface has 200\d\d\d bytes.*left out/) },
  ])
  expect(meta).toMatchObject({ isTruncated: true })
  expect(meta).not.toHaveProperty('ui')
})

test('fails for an address that is a web page', async () => {
  const wrong = { ...cart, resourceUri: 'https://evil.example/' }
  expect(await answerWith(wrong)).toMatchObject({
    isError: true,
    content: [{ text: expect.stringContaining('ui://') }],
    _meta: { reason: 'invalid_output' },
  })
})
