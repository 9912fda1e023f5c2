import { readFile } from 'node:fs/promises'
import { isRecord } from '@x/internal'
import { startReplaceableServer } from '@x/mcp-testing'
import type { ReplaceableServer, TestTool, TestToolResult, ToolContext } from '@x/mcp-testing'

/**
 * Starts a shop on a free port of 127.0.0.1. It has two faces behind one URL: with sessions, which keep the baskets
 * (2025-11-25), and stateless (2026-07-28).
 */
export async function startBasketServer(
  first: ReplaceableServer['kind'] = 'legacy',
): Promise<ReplaceableServer> {
  const server = await startReplaceableServer(first)
  server.legacy.tools = server.modern.tools = TOOLS
  return server
}

/** Picture on each receipt. */
const STAMP = new URL('stamp.png', import.meta.url)

/** Number of pieces of each item. */
type Basket = Map<string, number>

const ITEM = { type: 'string', minLength: 1, maxLength: 60 }
const QUANTITY = { type: 'integer', minimum: 1, maximum: 1000, default: 1 }

/** Form that the shop asks to be filled in at the checkout. */
const CHECKOUT_FORM = {
  type: 'object',
  properties: {
    name: { type: 'string', title: 'Name', minLength: 1, maxLength: 80 },
    address: { type: 'string', title: 'Address', minLength: 1, maxLength: 200 },
    express: { type: 'boolean', title: 'Express delivery', default: false },
    payment: { type: 'string', title: 'Payment', enum: ['invoice', 'card', 'cash'] },
  },
  required: ['name', 'address', 'payment'],
}

const TOOLS: readonly TestTool[] = [
  {
    name: 'basket_add',
    description: 'Puts an item into the basket, and returns the basket.',
    inputSchema: {
      type: 'object',
      properties: { item: ITEM, quantity: QUANTITY },
      required: ['item'],
    },
    annotations: { readOnlyHint: false, idempotentHint: false },
    run({ item, quantity = 1 }, context) {
      if (typeof item !== 'string' || item === '') return toolError('`item` must be a text')
      if (!Number.isInteger(quantity) || Number(quantity) < 1) {
        return toolError('`quantity` must be a whole number above 0')
      }
      const basket = basketOf(context)
      const isNew = basket.size === 0
      basket.set(item, (basket.get(item) ?? 0) + Number(quantity))
      return shown(basket, `${isNew ? 'A new basket' : 'The basket'} ${placeOf(context)} holds`)
    },
  },
  {
    name: 'basket_show',
    description: 'Returns the basket.',
    annotations: { readOnlyHint: true },
    run(_args, context) {
      const basket = basketOf(context)
      return shown(basket, `The basket ${placeOf(context)} ${basket.size === 0 ? 'is' : 'holds'}`)
    },
  },
  {
    name: 'basket_checkout',
    description: 'Asks for name, address and payment, and orders what is in the basket.',
    annotations: { readOnlyHint: false, idempotentHint: false },
    run(_args, context) {
      const basket = basketOf(context)
      if (basket.size === 0) return toolError('The basket is empty: put an item into it first')
      const answer = context.inputResponses?.['checkout']
      if (answer === undefined) return checkoutForm(basket)
      if (!isRecord(answer) || answer['action'] !== 'accept') {
        return 'Nothing was ordered. The basket is as it was.'
      }
      const content = isRecord(answer['content']) ? answer['content'] : {}
      const { name, address, express, payment } = content
      const text = `Ordered ${listOf(basket)} for ${String(name)}, ${String(address)}. Payment: ${String(payment)}. Delivery: ${express === true ? 'express' : 'standard'}.`
      context.state.set(keyOf(context, 'order'), new Map(basket))
      basket.clear()
      return { content: [{ type: 'text', text }], structuredContent: { ordered: true, ...content } }
    },
  },
  {
    name: 'basket_receipt',
    description:
      'Returns the receipt of the last order: its data, a link, and the stamp of the shop.',
    annotations: { readOnlyHint: true },
    async run(_args, context) {
      const order = context.state.get(keyOf(context, 'order'))
      const basket: Basket = order instanceof Map ? order : basketOf(context)
      const items = itemsOf(basket)
      return {
        content: [
          { type: 'text', text: `Receipt: ${listOf(basket)}` },
          { type: 'image', mimeType: 'image/png', data: await readFile(STAMP, 'base64') },
          {
            type: 'resource_link',
            uri: 'https://shop.example/receipts/1',
            name: 'receipt-1',
            title: 'The receipt in the shop',
            mimeType: 'text/html',
          },
        ],
        structuredContent: { items, pieces: items.reduce((sum, one) => sum + one.quantity, 0) },
      }
    },
  },
]

/** The basket of the session; on the stateless face that of the caller. */
function basketOf(context: ToolContext): Basket {
  const key = keyOf(context, 'basket')
  const known = context.state.get(key)
  if (known instanceof Map) return known
  const basket: Basket = new Map()
  context.state.set(key, basket)
  return basket
}

function keyOf({ principal = '' }: ToolContext, name: 'basket' | 'order'): string {
  return `${name} ${principal}`
}

/** Where the basket is kept. A session id is shortened. */
function placeOf({ sessionId }: ToolContext): string {
  return sessionId === undefined
    ? 'of the caller'
    : `of session ${sessionId.slice(0, 4)}… (${sessionId.length})`
}

function itemsOf(basket: Basket): { readonly item: string; readonly quantity: number }[] {
  return [...basket].map(([item, quantity]) => ({ item, quantity }))
}

function listOf(basket: Basket): string {
  return [...basket].map(([item, quantity]) => `${quantity} × ${item}`).join(', ') || 'empty'
}

function shown(basket: Basket, start: string): TestToolResult {
  const text = `${start} ${listOf(basket)}`
  return { content: [{ type: 'text', text }], structuredContent: { items: itemsOf(basket) } }
}

function checkoutForm(basket: Basket): TestToolResult {
  const params = {
    mode: 'form',
    message: `You order ${listOf(basket)}. Where does it go?`,
    requestedSchema: CHECKOUT_FORM,
  }
  const inputRequests = { checkout: { method: 'elicitation/create', params } }
  return { resultType: 'input_required', inputRequests }
}

function toolError(text: string): TestToolResult {
  return { content: [{ type: 'text', text }], isError: true }
}
