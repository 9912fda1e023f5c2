import { mkdirSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { fileURLToPath } from 'node:url'
import { AxeBuilder } from '@axe-core/playwright'
import type { Browser, BrowserContextOptions, Locator, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { buildPage } from '../src/host/build-page.ts'
import { Playground } from '../src/host/playground.ts'
import { createWeb, listen } from '../src/host/web.ts'
import type { Listening } from '../src/host/web.ts'
import type { ExchangeKind } from '../src/timeline/events.ts'
import { EMPTY_STATE } from '../src/timeline/state.ts'
import type { PlaygroundState } from '../src/timeline/state.ts'
import { startChromium } from './chromium.ts'

/** Screenshots of the main states: CI keeps this folder. */
const ARTIFACTS = fileURLToPath(new URL('../artifacts/', import.meta.url))
const WIDE = { width: 1440, height: 900 }
const NARROW = { width: 380, height: 780 }
/** Ends what hangs. */
const WAIT = { timeout: 240_000 }

const browser = await startChromium()

// One app for all tests, as one person would use it: each test goes on where the one before ended. Without a Chromium
// they are skipped, with a message; where `CI` is set, `startChromium()` throws instead.
describe.skipIf(browser === undefined)('the page of the playground', () => {
  let app: Playground
  let web: Listening
  let page: Page

  beforeAll(async () => {
    mkdirSync(ARTIFACTS, { recursive: true })
    const [folder, playground] = await Promise.all([
      buildPage(),
      Playground.start({ env: { PLAYGROUND_MODEL: 'scripted' } }),
    ])
    app = playground
    web = await listen(createWeb(app, folder), 0)
    page = await open(web.url)
  })
  afterAll(async () => {
    await browser?.close()
    await web?.[Symbol.asyncDispose]()
    await app?.[Symbol.asyncDispose]()
  })

  /** Opens the page in a browser of its own. With a state, the page shows that one instead of the app's. */
  async function open(url: string, options: BrowserContextOptions = {}): Promise<Page> {
    const context = await (browser as Browser).newContext({
      viewport: WIDE,
      reducedMotion: 'reduce',
      ...options,
    })
    context.setDefaultTimeout(WAIT.timeout)
    const opened = await context.newPage()
    opened.on('pageerror', (error) => failures.push(error.message))
    await opened.goto(url)
    return opened
  }
  /** Opens the page with a state that the real app does not have. */
  async function openWith(state: PlaygroundState): Promise<Page> {
    const other = await open('about:blank')
    const body = `retry: 60000\nevent: snapshot\ndata: ${JSON.stringify(state)}\n\n`
    await other.route('**/api/events', (route) =>
      route.fulfill({ contentType: 'text/event-stream', body }),
    )
    await other.goto(web.url)
    return other
  }
  const failures: string[] = []

  async function say(text: string, on: Page = page): Promise<void> {
    const said = await on.locator('.from-user').count()
    await on.getByLabel('Message to the agent').fill(text)
    await on.keyboard.press('Enter')
    await on.locator('.from-user').nth(said).waitFor() // the badge of the run is that of this one now
  }
  const lastMessage = (on: Page = page): Locator => on.locator('.from-agent').last()
  const expectMessage = (text: string | RegExp, on: Page = page): Promise<void> =>
    lastMessage(on).filter({ hasText: text }).waitFor()
  const expectRun = (label: string, on: Page = page): Promise<void> =>
    on.locator('.conversation header .dot', { hasText: label }).waitFor()
  const count = async (kind: ExchangeKind, on: Page = page): Promise<number> =>
    Number(await on.locator(`.legend [data-kind=${kind}] b`).textContent())
  const rows = (kind: ExchangeKind, text: string): Locator =>
    page.locator(`[role=option][data-kind=${kind}]`, { hasText: text })
  async function untilNewAgent(trouble: () => Promise<void>): Promise<void> {
    const agent = page.locator('[data-card=agent]')
    const old = await agent.locator('.meta').textContent()
    await trouble()
    const isOther = agent.locator('.dot.is-running ~ .meta', { hasText: 'pid' })
    await isOther.and(agent.locator('.meta', { hasNotText: old ?? '' })).waitFor()
  }
  async function exported(format: 'JSON' | 'SVG', on: Page): Promise<string> {
    const download = on.waitForEvent('download')
    await on.getByRole('button', { name: `Export ${format}` }).click()
    expect((await download).suggestedFilename()).toBe(`timeline.${format.toLowerCase()}`)
    return readFile(await (await download).path(), 'utf8')
  }
  const shoot = (name: string, on: Page = page): Promise<unknown> =>
    on.screenshot({ path: `${ARTIFACTS}${name}.png` })

  async function expectAccessible(on: Page = page, rules?: string[]): Promise<void> {
    const axe = new AxeBuilder({ page: on })
    const { violations } = await (rules === undefined ? axe : axe.withRules(rules)).analyze()
    const found = violations.map(({ impact, id, nodes }) => [impact, id, nodes[0]?.html])
    const isSerious = ([impact]: (typeof found)[number]): boolean =>
      impact === 'serious' || impact === 'critical'
    expect(found.filter(isSerious)).toEqual([])
  }

  test('says what to do before anything has happened', async () => {
    await page.getByText('Ask the agent something.').waitFor()
    await page.getByText('No HTTP exchange yet.').waitFor()
    await page.getByText('No session is stored.').waitFor()
    await page.locator('[data-card=agent] .dot.is-running').waitFor()
    expect(await page.locator('[role=option][data-kind]').count()).toBe(0)
    await shoot('start')
  })

  test('shows a message, the tool call that it causes, and its result', async () => {
    await say('Add two apples to my basket')
    await expectMessage(/A new basket .* holds 2 × apples/)
    const call = page.locator('[data-tool=basket_add]')
    await call
      .locator('.result')
      .getByText(/2 × apples/)
      .waitFor()
    await call.locator('summary').first().click()
    expect(await call.getByLabel('Arguments of basket_add').textContent()).toContain(
      '"quantity": 2',
    )
    expect(await rows('handshake', 'initialize').count()).toBe(2) // and its notification
    expect(await rows('call', 'basket_add').count()).toBe(1)
    const lanes = await page.locator('.lane-names text').allTextContents()
    expect(lanes).toEqual(['agent', 'gateway', 'basket', 'everything', 'debug-state'])
    await page.getByRole('row', { name: 'basket' }).waitFor()

    await say('Show me the receipt')
    await expectRun('done')
    const receipt = page.locator('[data-tool=basket_receipt]')
    const width = receipt.getByRole('img').evaluate((image) => Reflect.get(image, 'naturalWidth'))
    expect(await width).toBeGreaterThan(0)
    const link = receipt.getByRole('link', { name: 'The receipt in the shop' })
    expect(await link.getAttribute('rel')).toBe('noopener noreferrer')
    await shoot('conversation')
  })

  test('shows one new handshake after the server forgot the session, and the empty basket', async () => {
    const before = await count('handshake')
    await page.getByRole('button', { name: 'Forget sessions: basket' }).click()
    await page.locator('.row.notice', { hasText: 'forgot its sessions' }).waitFor()
    await say('Show my basket')
    await expectMessage(/is empty/)
    expect(await rows('loss', 'basket_show').count()).toBe(1)
    await page.locator('.row.notice:has-text("forgot") ~ [data-kind=loss]').first().waitFor()
    expect(await rows('recovery', 'initialize').filter({ hasNotText: 'initialized' }).count()).toBe(
      1,
    )
    expect(await count('handshake')).toBe(before)
    await shoot('session-lost')
  })

  test('shows that a new agent process resumes the session without a handshake', async () => {
    const before = [await count('handshake'), await count('recovery')]
    await untilNewAgent(() => page.getByRole('button', { name: 'Kill and restart: agent' }).click())
    await say('Add one pear to my basket')
    await expectMessage(/holds 1 × pear/)
    await expect.poll(() => rows('resume', 'basket_add').count(), WAIT).toBe(1)
    expect([await count('handshake'), await count('recovery')]).toEqual(before)
    await shoot('agent-killed')
  })

  test('opens an exchange from the keyboard, and gives the focus back', async () => {
    await page.getByRole('listbox').focus()
    await page.keyboard.press('End')
    await page.keyboard.press('ArrowUp')
    await page.keyboard.press('Enter')
    const dialog = page.getByRole('dialog')
    await dialog.getByText(/^Request: /).waitFor()
    await shoot('exchange')
    await expectAccessible()
    await page.keyboard.press('Escape')
    await dialog.waitFor({ state: 'detached' })
    await page.locator('[role=listbox]:focus').waitFor()
  })

  test('masks ids and tokens in the details of an exchange', async () => {
    await rows('resume', 'basket_add').click()
    const dialog = page.getByRole('dialog')
    await dialog.getByText('mcp-session-id').waitFor()
    const text = (await dialog.textContent()) ?? ''
    expect(text).toContain('basket_add')
    expect(text).not.toMatch(/[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}/)
    await dialog.getByRole('button', { name: 'Close' }).click()
  })

  test('makes a form of the question of a server, and sends the answer', async () => {
    await say('Check out')
    const question = page.locator('.question')
    await expectRun('waits for you')
    await question.getByLabel('Name').fill('Ada')
    await question.getByRole('button', { name: 'Send' }).click()
    await page.locator('#root [name=address]:focus').waitFor()
    await shoot('question')
    await expectAccessible()
    await question.getByLabel('Address').fill('1 Orchard Road')
    await question.getByLabel('Payment').selectOption('card')
    await question.getByRole('button', { name: 'Send' }).click()
    await expectMessage('Ordered 1 × pear for Ada, 1 Orchard Road. Payment: card.')
    await question.getByText('You answered.').waitFor()
  })

  test('makes a field of each kind of property, and checks it', async () => {
    const other = await openWith(FORM)
    const send = other.locator('.question').getByRole('button', { name: 'Send' })
    async function expectInvalid(label: string): Promise<void> {
      await send.click()
      await other.getByLabel(label).and(other.locator(':focus:invalid')).waitFor()
    }
    async function expectFilled(label: string, wrong: string, right: string): Promise<void> {
      await other.getByLabel(label).fill(wrong)
      await expectInvalid(label)
      await other.getByLabel(label).fill(right)
    }
    await expectInvalid('Your name')
    await expectFilled('Your name', 'A', 'Ada')
    expect(await other.getByLabel('Your name').getAttribute('maxlength')).toBe('4')
    await expectFilled('email', 'ada@localhost', 'ada@example.com')
    await expectFilled('site', 'shop', 'https://example.com/shop')
    await expectFilled('years', '17', '18')
    await expectFilled('years', '18.5', '19')
    await other.getByLabel('weight').fill('1.5')
    await other.getByLabel('speed').selectOption({ label: 'Standard' })
    await other.getByLabel('Ribbon').check()
    await expectInvalid('Ribbon')
    await other.getByLabel('Box').check()
    await shoot('form', other)
    await expectAccessible(other)

    const command = other.waitForRequest('**/api/commands')
    await send.click()
    expect((await command).postDataJSON()).toMatchObject({
      action: 'accept',
      content: {
        name: 'Ada',
        email: 'ada@example.com',
        site: 'https://example.com/shop',
        at: '2026-01-02T03:04:05.000Z',
        years: 19,
        weight: 1.5,
        news: true,
        size: 'm',
        speed: 'std',
        days: ['tue'],
        extras: ['a', 'b'],
        ['__proto__']: 'x',
      },
    })
    await other.context().close()
  })

  test('runs 50 parallel calls in one session', async () => {
    const before = [await count('handshake'), await count('recovery')]
    const calls = await count('call')
    const top = async (row: Locator) => (await row.boundingBox())?.y
    const [first, last] = [
      page.locator('[role=option]').first(),
      page.locator('[role=option]').last(),
    ]
    const end = Number(await top(last))
    await page.getByRole('listbox').focus()
    await page.keyboard.press('Home')
    await page.getByRole('button', { name: 'Newest' }).waitFor()
    const start = await top(first)
    await page.getByRole('button', { name: 'Run 50 parallel calls' }).click()
    await page.locator('.row.notice', { hasText: '50 answered' }).waitFor()
    await expect.poll(() => count('call'), WAIT).toBe(calls + 50)
    expect([await count('handshake'), await count('recovery')]).toEqual(before)
    expect(await top(first)).toBe(start)
    await page.getByRole('button', { name: 'Newest' }).click()
    await expect.poll(() => top(last), WAIT).toBeCloseTo(end)
    await shoot('parallel-calls')
  })

  test('says that the connection is lost, and shows the current state after it', async () => {
    await using cable = await startCable(new URL(web.url).port)
    const other = await open(cable.url)
    await expectMessage('Ordered', other)
    cable.cut()
    await other.getByText('No connection to the playground since').waitFor()
    await shoot('connection-lost', other)
    await say('What is 2 plus 3?')
    await expectMessage('5')
    await expectRun('done')
    cable.mend()
    await other.locator('.banner').waitFor({ state: 'detached' })
    await expectMessage('5', other)
    await expect.poll(() => count('state', other), WAIT).toBe(await count('state'))
    await other.context().close()
  })

  test('shows one conversation in two tabs, and what the other one does', async () => {
    const other = await open(web.url)
    await expectMessage('5', other)
    await say('Add a plum to my basket, then check out', other)
    await page.locator('.question', { hasText: 'You order 1 × plum.' }).waitFor()
    await other.getByRole('button', { name: 'Decline' }).click()
    await page.getByText('You declined.').waitFor()
    await expectMessage('Nothing was ordered.')
    await expectRun('done')
    await other.context().close()
  })

  test('shows a command that fails as a problem that can be closed', async () => {
    const problem = page.getByRole('alert')
    await page.route('**/api/commands', (route) => route.abort(), { times: 1 })
    await page.getByRole('button', { name: 'Restart: everything' }).click()
    await problem.getByText('The playground did not answer').waitFor()
    await shoot('problem')
    await problem.getByRole('button', { name: 'Close' }).click()
    await expect.poll(() => problem.count(), WAIT).toBe(0)
  })

  test('switches the execution type: the runtime opens sessions of its own', async () => {
    await untilNewAgent(() => page.getByRole('button', { name: 'runtime' }).click())
    const handshakes = await count('handshake')
    await say('Show my basket')
    await expectRun('done')
    await expect.poll(() => count('handshake'), WAIT).toBeGreaterThan(handshakes)
    await page.getByRole('button', { name: 'playground', exact: true }).click()
    await page.locator('[aria-pressed=true]', { hasText: /^playground$/ }).waitFor()
  })

  test('fits a screen of 380 pixels', async () => {
    const small = await open(web.url, { viewport: NARROW })
    const width = (): Promise<unknown> => small.evaluate('document.documentElement.scrollWidth')
    for (const part of ['Conversation', 'Timeline', 'Servers']) {
      await small.getByRole('button', { name: part, exact: true }).click()
      await small
        .getByRole('region', { name: new RegExp(part, 'i') })
        .first()
        .waitFor()
      expect(await width()).toBe(NARROW.width)
      await shoot(`narrow-${part.toLowerCase()}`, small)
    }
    await expectAccessible(small)
    await small.context().close()
  })

  test('has enough contrast in dark', async () => {
    const dark = await open(web.url, { colorScheme: 'dark' })
    await expectMessage(/./, dark)
    await shoot('dark', dark)
    await expectAccessible(dark, ['color-contrast'])
    await dark.locator('[role=option][data-kind]').last().click()
    await dark.getByText(/^Request: /).waitFor()
    await expectAccessible(dark, ['color-contrast'])
    await dark.context().close()
  })

  test('exports the timeline: the newest rows as SVG, and all exchanges as JSON', async () => {
    const many = await openWith(MANY)
    const svg = await exported('SVG', many)
    expect(svg.match(/data-kind="call"/g)).toHaveLength(500)
    expect(JSON.parse(await exported('JSON', many))).toMatchObject({
      figures: { calls: 2000 },
      exchanges: MANY.exchanges,
    })
    await many.context().close()
  })

  test('draws the newest 500 of 2,000 exchanges', async () => {
    const many = await openWith(MANY)
    await many.locator('#exchange-2000').waitFor()
    expect(await many.locator('.row').count()).toBe(500)
    expect(await many.locator('#exchange-2000').boundingBox()).toMatchObject({ height: 30 })
    await many.getByRole('listbox').focus()
    await many.keyboard.press('Home')
    await many.locator('#exchange-1501.is-active').waitFor()
    const top = async (selector: string) => (await many.locator(selector).boundingBox())?.y
    const below = async () => Number(await top('#exchange-1501')) - Number(await top('.lane-names'))
    await expect.poll(below, WAIT).toBeGreaterThan(29) // browsers scroll by whole pixels
    await many.getByRole('button', { name: 'Newest' }).click()
    await many.getByRole('button', { name: 'Newest' }).waitFor({ state: 'detached' })
    await many.context().close()
  })

  test('shows audio, resources and structured content of a result', async () => {
    const other = await openWith(RESULT)
    const audio = other.getByLabel('audio of the result')
    await expect.poll(() => audio.evaluate((element) => Reflect.get(element, 'duration'))).toBe(1)
    await other.getByLabel('file:///list.txt').getByText('apples').waitFor()
    await other.getByText('file:///data.bin: data of an unknown type, 3 B.').waitFor()
    await other.getByText('Structured content').click()
    await other.getByLabel('Structured content').getByText('"total": 2').waitFor()
    await expectAccessible(other)
    await other.context().close()
  })

  test('treats what servers send as text', async () => {
    const hostile = await openWith(HOSTILE)
    await hostile.getByText('<img src=x onerror=document.title=1>').waitFor()
    await hostile.getByText('Invoice').waitFor()
    expect(await hostile.getByLabel('Messages').locator('a').count()).toBe(0)
    expect(await hostile.getByLabel('Messages').locator('img').count()).toBe(0)
    await hostile.getByText('image/svg+xml').waitFor()
    await hostile.getByLabel('constructor').waitFor()
    const svg = await exported('SVG', hostile)
    const elements = await hostile.evaluate<string[]>(
      `[...new DOMParser().parseFromString(${JSON.stringify(svg)}, 'image/svg+xml').querySelectorAll('*')]
        .map(({ tagName }) => tagName)`,
    )
    expect(new Set(elements)).toEqual(SVG_ELEMENTS)
    expect(svg).toContain('&lt;/text&gt;&lt;script&gt;')
    expect(await hostile.title()).toBe('MCP session playground')
    await hostile.context().close()
  })

  test('never failed in a tab', () => expect(failures).toEqual([]))
})

const MANY: PlaygroundState = {
  ...EMPTY_STATE,
  exchanges: Array.from({ length: 2000 }, (_item, index) => ({
    id: index + 1,
    from: 'agent',
    to: 'basket',
    kind: 'call',
    label: 'basket_show',
    httpMethod: 'POST',
    rpcMethod: 'tools/call',
    toolName: 'basket_show',
    startedAt: 1_700_000_000_000 + index,
    durationMs: 5,
    status: 200,
    requestBytes: 100,
    responseBytes: 100,
  })),
}

const FORM: PlaygroundState = {
  ...EMPTY_STATE,
  run: { id: 'run', state: 'waiting' },
  conversation: [
    {
      type: 'question',
      id: 'question',
      server: 'basket',
      message: 'Who are you?',
      mode: 'form',
      schema: {
        type: 'object',
        required: ['name', 'years'],
        properties: {
          name: {
            type: 'string',
            title: 'Your name',
            description: 'As on the card',
            minLength: 2,
            maxLength: 4,
          },
          email: { type: 'string', format: 'email' },
          site: { type: 'string', format: 'uri' },
          day: { type: 'string', format: 'date' },
          at: { type: 'string', format: 'date-time', default: '2026-01-02T03:04:05Z' },
          years: { type: 'integer', minimum: 18, maximum: 99, default: 20 },
          weight: { type: 'number' },
          news: { type: 'boolean', default: true },
          size: { type: 'string', enum: ['s', 'm'], enumNames: ['Small', 'Medium'], default: 'm' },
          speed: { type: 'string', oneOf: [{ const: 'std', title: 'Standard' }] },
          days: {
            type: 'array',
            items: { type: 'string', enum: ['mon', 'tue'] },
            default: ['tue'],
          },
          extras: {
            type: 'array',
            items: {
              anyOf: [
                { const: 'a', title: 'Ribbon' },
                { const: 'b', title: 'Box' },
              ],
            },
            minItems: 2,
          },
          ['__proto__']: { type: 'string', default: 'x' },
        },
      },
    },
  ],
}
/** A name that is neither well-formed XML nor harmless as HTML. */
const HOSTILE_NAME = '</text><script>document.title=1</script>\0\u001B\uFFFE\uD800'
const SVG_ELEMENTS = new Set(['title', 'style', 'rect', 'svg', 'text', 'path', 'tspan'])

/** One second of silence: a header of 44 bytes, and 8,000 samples of 8 bits. */
const WAV = Buffer.alloc(8044, 128)
WAV.write('RIFF', 0)
WAV.writeUInt32LE(8036, 4)
WAV.write('WAVEfmt ', 8)
WAV.writeUInt32LE(16, 16)
WAV.writeUInt16LE(1, 20)
WAV.writeUInt16LE(1, 22)
WAV.writeUInt32LE(8000, 24)
WAV.writeUInt32LE(8000, 28)
WAV.writeUInt16LE(1, 32)
WAV.writeUInt16LE(8, 34)
WAV.write('data', 36)
WAV.writeUInt32LE(8000, 40)

const RESULT: PlaygroundState = {
  ...EMPTY_STATE,
  conversation: [
    {
      type: 'tool-call',
      id: 'call',
      agent: 'shopper',
      name: 'everything',
      args: {},
      result: {
        isError: false,
        content: [
          { type: 'audio', mimeType: 'audio/wav', data: WAV.toString('base64') },
          { type: 'resource', resource: { uri: 'file:///list.txt', text: 'apples' } },
          { type: 'resource', resource: { uri: 'file:///data.bin', blob: 'AAAA' } },
        ],
        structuredContent: { total: 2 },
      },
    },
  ],
}

const HOSTILE: PlaygroundState = {
  ...EMPTY_STATE,
  exchanges: MANY.exchanges.slice(0, 1).map((one) => {
    return { ...one, to: HOSTILE_NAME, label: HOSTILE_NAME, sessionId: HOSTILE_NAME }
  }),
  notices: [
    { type: 'notice', id: 1, at: Date.now(), level: 'problem', text: HOSTILE_NAME.repeat(20) },
  ],
  run: { id: 'run', state: 'waiting' },
  conversation: [
    {
      type: 'tool-call',
      id: 'call',
      agent: 'shopper',
      name: 'evil',
      args: {},
      result: {
        isError: false,
        content: [
          { type: 'text', text: '<img src=x onerror=document.title=1>' },
          { type: 'resource_link', uri: 'javascript:document.title=1', name: 'Invoice' },
          { type: 'image', mimeType: 'image/svg+xml', data: 'PHN2Zy8+' },
        ],
      },
    },
    {
      type: 'question',
      id: 'question',
      server: 'evil',
      message: 'Form',
      mode: 'form',
      schema: { type: 'object', properties: { constructor: { type: 'number' as const } } },
    },
    {
      type: 'question',
      id: 'url',
      server: 'evil',
      message: 'Link',
      mode: 'url',
      url: 'javascript:1',
    },
  ],
}

interface Cable extends AsyncDisposable {
  readonly url: string
  /** Ends all connections, and refuses new ones. */
  cut(): void
  mend(): void
}

/** Passes the bytes of connections on to a port of this machine. */
async function startCable(port: string): Promise<Cable> {
  const sockets = new Set<Socket>()
  let isCut = false
  const server = createServer((socket) => {
    if (isCut) return void socket.destroy()
    const target = connect(Number(port), '127.0.0.1')
    for (const end of [socket, target]) {
      sockets.add(end)
      end.on('error', () => {}).on('close', () => sockets.delete(end))
    }
    socket.pipe(target).pipe(socket)
    return undefined
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const end = (): void => sockets.forEach((socket) => socket.destroy())
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    cut() {
      isCut = true
      end()
    },
    mend() {
      isCut = false
    },
    async [Symbol.asyncDispose]() {
      const closed = new Promise((resolve) => server.close(resolve))
      end()
      await closed
    },
  }
}
