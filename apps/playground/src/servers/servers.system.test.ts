import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { sourceNode } from '@x/internal/testing'
import { McpClient } from '@x/mcp-client'
import type { McpServerConfig } from '@x/mcp-client'
import { expect, test } from 'vitest'
import { startBasketServer } from './basket-server.ts'

/** Answers each form with these values. */
function clientOf(server: McpServerConfig, content?: Record<string, string | boolean>) {
  return new McpClient(server, {
    handlers: {
      elicitation: () =>
        content === undefined ? { action: 'decline' } : { action: 'accept', content },
    },
  })
}

async function text(client: McpClient, tool: string, args = {}): Promise<string> {
  const { content } = await client.callTool(tool, args)
  return content.flatMap((block) => (block.type === 'text' ? [block.text] : [])).join('\n')
}

const TOKEN = 'a-token-of-this-test-that-is-long-enough'
const ADDRESS = { name: 'Ada', address: '1 Main Street', express: true, payment: 'invoice' }

test.each(['legacy', 'modern'] as const)('sells what is in the basket (%s)', async (era) => {
  await using server = await startBasketServer(era)
  await using client = clientOf({ url: server.url }, ADDRESS)
  expect(await text(client, 'basket_add', { item: 'apple', quantity: 2 })).toMatch(
    era === 'legacy'
      ? /^A new basket of session \w{4}… \(36\) holds 2 × apple$/
      : /^A new basket of the caller holds 2 × apple$/,
  )
  expect(await text(client, 'basket_add', { item: 'pear' })).toMatch(/2 × apple, 1 × pear$/)
  expect(await text(client, 'basket_checkout')).toBe(
    'Ordered 2 × apple, 1 × pear for Ada, 1 Main Street. Payment: invoice. Delivery: express.',
  )
  expect(await text(client, 'basket_show')).toMatch(/is empty$/)
  const receipt = await client.callTool('basket_receipt')
  expect(receipt.content.map(({ type }) => type)).toEqual(['text', 'image', 'resource_link'])
  expect(receipt.structuredContent).toMatchObject({ pieces: 3 })
})

test('a declined form orders nothing', async () => {
  await using server = await startBasketServer()
  await using client = clientOf({ url: server.url })
  await expect(client.callTool('basket_checkout')).resolves.toMatchObject({ isError: true })
  await text(client, 'basket_add', { item: 'apple' })
  expect(await text(client, 'basket_checkout')).toMatch(/^Nothing was ordered/)
  expect(await text(client, 'basket_show')).toMatch(/1 × apple$/)
})

test('a basket is lost with its session, and each caller has one of its own', async () => {
  await using server = await startBasketServer()
  await using ada = clientOf({ url: server.url })
  await using bob = clientOf({ url: server.url })
  await text(ada, 'basket_add', { item: 'apple' })
  expect(await text(bob, 'basket_show')).toMatch(/is empty$/)
  server.legacy.forgetSessions()
  expect(await text(ada, 'basket_add', { item: 'pear' })).toMatch(
    /^A new basket .* holds 1 × pear$/,
  )
})

test.each([{}, { item: '' }, { item: 'apple', quantity: 0 }, { item: 'apple', quantity: 0.5 }])(
  'refuses to add %j',
  async (args) => {
    await using server = await startBasketServer()
    await using client = clientOf({ url: server.url })
    await expect(client.callTool('basket_add', args)).resolves.toMatchObject({ isError: true })
  },
)

test('a question of the shop reaches the caller of the gateway', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'playground-'))
  await using basket = await startBasketServer()
  const child = fork(fileURLToPath(new URL('gateway-process.ts', import.meta.url)), {
    execPath: sourceNode,
    execArgv: ['--conditions=mcp-source'],
    env: {
      ...process.env,
      DATA_FOLDER: folder,
      GATEWAY_TOKEN: TOKEN,
      BASKET_URL: basket.url,
      PLAYGROUND_MODEL: 'scripted',
    },
  })
  const exited = once(child, 'exit')
  const [{ url }] = await Promise.race([once(child, 'message'), exited])
  const headers = { authorization: `Bearer ${TOKEN}` }
  await using client = clientOf({ url, headers }, ADDRESS)
  const checkout = { message: 'Add a fig to my basket, then check out' }
  expect(await text(client, 'shopping_team', checkout)).toMatch(/^Ordered 1 × fig for Ada/)
  child.disconnect()
  await exited
  await rm(folder, { recursive: true })
})
