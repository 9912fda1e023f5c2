import { expect, test } from 'vitest'
import type { Exchange, ServerState } from './events.ts'
import { EMPTY_STATE } from './state.ts'
import { svgOf } from './svg.ts'

const SHOP: ServerState = {
  name: 'shop',
  title: 'Shop',
  transport: 'http',
  state: 'running',
  troubles: [],
}

function exchange(id: number, rest: Partial<Exchange> = {}): Exchange {
  return {
    id,
    from: 'agent',
    to: 'shop',
    kind: 'call',
    httpMethod: 'POST',
    rpcMethod: 'tools/call',
    toolName: 'basket_add',
    startedAt: 1000 + id,
    durationMs: 4,
    status: 200,
    requestBytes: 0,
    responseBytes: 0,
    ...rest,
  }
}

/** Fails if a document is not well-formed XML: elements, attributes and references. */
function expectWellFormed(svg: string): void {
  const open: string[] = []
  const tag = /<(\/?)([a-z]+)((?:\s+[\w:-]+="[^"<]*")*)\s*(\/?)>/gi
  for (const [, end, name = '', , empty] of svg.matchAll(tag)) {
    if (end === '/' && open.at(-1) === name) open.pop()
    else if (empty !== '/') open.push(`${end}${name}`)
  }
  expect(open).toEqual([])
  expect(svg.replaceAll(tag, '').match(/[<>]/g)).toBeNull()
  expect(svg.match(/&(?!(?:amp|lt|gt|quot);)/g)).toBeNull()
  expect(
    svg.split('').filter((one) => (one < ' ' && one !== '\n') || /[\uFFFE\uFFFF]/.test(one)),
  ).toEqual([])
  expect(svg.match(/\p{Surrogate}/gu)).toBeNull()
}

test('draws lanes, an arrow with a text for each exchange, notices and a legend', () => {
  const svg = svgOf({
    servers: [SHOP],
    exchanges: [
      exchange(1, { kind: 'loss', status: 404 }),
      exchange(2, { kind: 'recovery', toolName: undefined, rpcMethod: 'initialize' }),
      exchange(3, { to: 'debug-state', kind: 'state', toolName: undefined, rpcMethod: undefined }),
      exchange(4, { status: undefined, durationMs: undefined, problem: 'connection broke' }),
    ],
    notices: [{ id: 1, at: 1000, level: 'info', text: 'The shop has forgotten its sessions.' }],
  })
  expectWellFormed(svg)
  expect(svg).toContain(
    '<title>agent to shop: session lost, session lost: call basket_add: 404, 4 ms</title>',
  )
  expect(svg).toContain('>recovery: initialize</text>')
  expect(svg).toContain('>call basket_add (connection broke)</text>')
  expect(svg.indexOf('The shop has forgotten')).toBeLessThan(svg.indexOf('session lost: call'))
  expect(svg.indexOf('>shop</text>')).toBeLessThan(svg.indexOf('>debug-state</text>'))
  expect(svg).toMatch(/role="img" aria-labelledby="title description"/)
  expect(svg).toContain('prefers-color-scheme: dark')
})

test('many equal exchanges in a row are one row', () => {
  const exchanges = Array.from({ length: 50 }, (_, index) => exchange(index))
  const svg = svgOf({ servers: [SHOP], exchanges, notices: [] })
  expect(svg).toContain('>50 × call basket_add</text>')
  expect(svg.match(/<g class="call">/g)).toHaveLength(2) // with the legend
})

test('an empty timeline says so', () => {
  const svg = svgOf(EMPTY_STATE)
  expectWellFormed(svg)
  expect(svg).toContain('Nothing has happened yet.')
})

test.each([
  '</text><script>alert(1)</script>',
  '"><&amp;\'',
  ']]>',
  'a\0b\u001Bc\uFFFEd',
  '\uD800 lone',
  '👩‍👩‍👧'.repeat(1000),
  '',
])('is well-formed with the name %j', (name) => {
  const svg = svgOf(
    {
      servers: [{ ...SHOP, name, title: name }],
      exchanges: [exchange(1, { to: name, toolName: name, problem: undefined })],
      notices: [{ id: 1, at: 1, level: 'problem', text: name }],
    },
    name,
  )
  expectWellFormed(svg)
  expect(svg).not.toContain('<script')
})

test('is of bounded size', () => {
  const exchanges = Array.from({ length: 2000 }, (_, index) =>
    exchange(index, { toolName: `${index} ${'x'.repeat(5000)}` }),
  )
  const svg = svgOf({ servers: [SHOP], exchanges, notices: [] })
  expectWellFormed(svg)
  expect(svg).toContain('1700 earlier rows are left out')
  expect(svg.length).toBeLessThan(300_000)
})
