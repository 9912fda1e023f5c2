import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { SkillsClient } from '@modelcontextprotocol/client/ext/skills'
import { SkillCatalog } from '@modelcontextprotocol/server/ext/skills'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { readConfig } from '../src/cli/config-file.ts'
import { toOptions } from '../src/cli/file-settings.ts'
import { bearerAuth, createGateway, type Gateway, type GatewayOptions } from '../src/index.ts'
import { AgentsAtHand, echo } from './agents-at-hand.ts'
import { ManualClock } from './manual-clock.ts'
import { eventsOf, get, inSession, modern, openSession } from './rpc-requests.ts'

const REFUND = 'skill://refund/SKILL.md'
const GREET = 'skill://support/greet/SKILL.md'

function manifestOf(name: string, body = 'Be kind.\n'): string {
  return `---\nname: ${name}\ndescription: Does ${name}\n---\n${body}`
}

/** A folder with a skill for everyone, and one of the agent `support`. */
async function skillFolder() {
  const path = await mkdtemp(join(tmpdir(), 'skills-'))
  const write = async (name: string, text: string): Promise<void> => {
    await mkdir(dirname(join(path, name)), { recursive: true })
    await writeFile(join(path, name), text)
  }
  await write('refund/SKILL.md', manifestOf('refund'))
  await write('refund/references/FORMS.md', 'Form 1')
  await write('support/greet/SKILL.md', manifestOf('greet'))
  return { path, write, [Symbol.asyncDispose]: () => rm(path, { recursive: true }) }
}

function gatewayOf(folder: { readonly path: string }, options: GatewayOptions = {}): Gateway {
  const sources = [new AgentsAtHand({ support: echo, other: echo })]
  return createGateway({ sources, skillFolder: folder.path, log: false, ...options })
}

const auth = bearerAuth({
  supporter: { token: 'token-of-supporter-0123456789', scopes: ['agent:support:call'] },
  desk: { token: 'token-of-order-desk-0123456789', scopes: ['agent:Order%20Desk:call'] },
  other: { token: 'token-of-other-01234567890123', scopes: ['agent:other:call'] },
})
const SUPPORTER = { authorization: 'Bearer token-of-supporter-0123456789' }
const OTHER = { authorization: 'Bearer token-of-other-01234567890123' }

interface Answer {
  readonly result?: Readonly<Record<string, unknown>>
  readonly error?: { readonly code: number; readonly message: string }
}

async function ask(
  gateway: Gateway,
  [method, params = {}]: readonly [string, Readonly<Record<string, unknown>>?],
  headers: Readonly<Record<string, string>> = {},
): Promise<Answer> {
  const response = await gateway.fetch(modern(method, params, headers))
  return JSON.parse(await response.text())
}

function urisIn(list: unknown): readonly unknown[] {
  return Array.isArray(list) ? list.map(({ uri }) => uri) : []
}

test.each(['legacy', 'auto'] as const)(
  'serves skills to the client of the SDK, %s',
  async (mode) => {
    await using folder = await skillFolder()
    await using gateway = gatewayOf(folder)
    const { url } = await gateway.listen({ port: 0 })
    const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode } })
    await client.connect(new StreamableHTTPClientTransport(new URL(url)))
    const skills = new SkillsClient(client)
    expect(skills.directoryRead).toBe(true)
    const { skills: entries } = await skills.list()
    expect(urisIn(entries)).toEqual([REFUND, GREET])
    const { skill } = await skills.get(REFUND)
    expect(await skills.read(skill)).toMatchObject({ verified: true, body: 'Be kind.\n' })
    expect(await skills.read(skill, 'references/FORMS.md')).toMatchObject({ text: 'Form 1' })
    const { resources } = await skills.readDirectory('skill://refund')
    expect(urisIn(resources)).toEqual(['skill://refund/SKILL.md', 'skill://refund/references'])
    await client.close()
  },
)

test('declares no skills without a folder', async () => {
  await using gateway = createGateway({ sources: [new AgentsAtHand({ echo })] })
  const { result } = await ask(gateway, ['server/discover'])
  expect(result).not.toHaveProperty([
    'capabilities',
    'extensions',
    'io.modelcontextprotocol/skills',
  ])
  expect(await ask(gateway, ['skills/list'])).toMatchObject({ error: { code: -32_601 } })
})

test('names the skills of an agent in the list of tools', async () => {
  await using folder = await skillFolder()
  await using gateway = gatewayOf(folder)
  const { result } = await ask(gateway, ['tools/list'])
  expect(result?.['tools']).toMatchObject([
    { name: 'other', _meta: expect.not.objectContaining({ skills: expect.anything() }) },
    { name: 'support', _meta: { agent: 'support', skills: [GREET] } },
  ])
})

test('knows an agent whose name has other characters in a URI', async () => {
  await using folder = await skillFolder()
  await folder.write('Order Desk/greet/SKILL.md', manifestOf('greet'))
  const sources = [new AgentsAtHand({ 'Order Desk': echo })]
  await using gateway = gatewayOf(folder, { sources, auth })
  const headers = { authorization: 'Bearer token-of-order-desk-0123456789' }
  const uri = 'skill://Order%20Desk/greet/SKILL.md'
  const { result } = await ask(gateway, ['tools/list'], headers)
  expect(result?.['tools']).toMatchObject([{ _meta: { agent: 'Order Desk', skills: [uri] } }])
  const listed = await ask(gateway, ['skills/list'], headers)
  expect(urisIn(listed.result?.['skills'])).toEqual([uri, REFUND])
  expect(await ask(gateway, ['skills/get', { uri }], OTHER)).toMatchObject({
    error: { code: -32_602 },
  })
})

test('lists skills among the resources, beside files of agents', async () => {
  await using folder = await skillFolder()
  await using gateway = gatewayOf(folder)
  const { result } = await ask(gateway, ['resources/list'])
  expect(result?.['resources']).toMatchObject([
    { uri: REFUND, name: 'refund', description: 'Does refund', mimeType: 'text/markdown' },
    { uri: GREET, name: 'greet' },
  ])
  const templates = await ask(gateway, ['resources/templates/list'])
  expect(templates.result?.['resourceTemplates']).toMatchObject([
    { uriTemplate: 'skill://{+path}' },
    { name: 'artifact' },
  ])
  await using alone = gatewayOf(folder, { artifacts: { quota: 0 } })
  const { result: listed } = await ask(alone, ['resources/list'])
  expect(urisIn(listed?.['resources'])).toEqual([REFUND, GREET])
  const file = { uri: 'artifact://a/b' }
  expect(await ask(alone, ['resources/read', file])).toMatchObject({ error: { code: -32_602 } })
})

test.each([
  ['skills/get', 'skill://none/SKILL.md', -32_602],
  ['resources/directory/read', REFUND, -32_602],
  ['resources/directory/read', 'skill://none', -32_602],
  ['resources/read', 'skill://none/SKILL.md', -32_602],
  ['resources/read', 'skill://refund/../support/greet/SKILL.md', -32_602],
  ['resources/read', 'skill://refund/%2e%2e/%2e%2e/etc/passwd', -32_602],
])('refuses %s of %s', async (method, uri, code) => {
  await using folder = await skillFolder()
  await using gateway = gatewayOf(folder)
  expect(await ask(gateway, [method, { uri }])).toMatchObject({ error: { code } })
})

test('does not follow symbolic links out of the folder', async () => {
  await using folder = await skillFolder()
  await symlink('/etc/hostname', join(folder.path, 'refund', 'link.md'))
  await using gateway = gatewayOf(folder)
  const { result } = await ask(gateway, ['skills/list'])
  expect(urisIn(result?.['skills'])).toEqual([GREET])
})

test('shows skills in the folder of an agent to its callers only', async () => {
  await using folder = await skillFolder()
  await using gateway = gatewayOf(folder, { auth })
  const listed = async (headers: Record<string, string>): Promise<readonly unknown[]> => {
    const { result } = await ask(gateway, ['skills/list'], headers)
    return urisIn(result?.['skills'])
  }
  expect(await listed(SUPPORTER)).toEqual([REFUND, GREET])
  expect(await listed(OTHER)).toEqual([REFUND])
  const { result } = await ask(gateway, ['resources/list'], OTHER)
  expect(urisIn(result?.['resources'])).toEqual([REFUND])
})

test.each([
  ['skills/get', GREET],
  ['resources/read', GREET],
  ['resources/directory/read', 'skill://support'],
  ['resources/directory/read', 'skill://support/greet'],
  ['resources/read', 'skill://sup\tport/greet/SKILL.md'],
  ['skills/get', 'SKILL://support/greet/SKILL.md'],
])('answers %s of %s as if it did not exist to other callers', async (method, uri) => {
  await using folder = await skillFolder()
  await using gateway = gatewayOf(folder, { auth })
  const name = { 'mcp-name': `=?base64?${Buffer.from(uri).toString('base64')}?=` }
  const headers = method === 'resources/read' ? { ...OTHER, ...name } : OTHER
  const unknown = uri.replace('support', 'nobody')
  const refused = await ask(gateway, [method, { uri }], headers)
  const absent = await ask(gateway, [method, { uri: unknown }], {
    ...headers,
    ...(method === 'resources/read' && {
      'mcp-name': `=?base64?${Buffer.from(unknown).toString('base64')}?=`,
    }),
  })
  expect(refused.error?.code).toBe(-32_602)
  expect(refused.error?.message).toBe(absent.error?.message.replace('nobody', 'support'))
})

test('keeps the skills of an agent for its callers while the agent is away', async () => {
  await using folder = await skillFolder()
  await using gateway = gatewayOf(folder, { auth, sources: [new AgentsAtHand({ other: echo })] })
  expect(await ask(gateway, ['skills/get', { uri: GREET }], OTHER)).toMatchObject({
    error: { code: -32_602 },
  })
  expect(await ask(gateway, ['skills/get', { uri: GREET }], SUPPORTER)).toMatchObject({
    result: { skill: { uri: GREET } },
  })
  const uri = 'skill://Order%20Desk/greet/SKILL.md'
  await folder.write('Order Desk/greet/SKILL.md', manifestOf('greet'))
  await using another = gatewayOf(folder, { auth, sources: [new AgentsAtHand({ other: echo })] })
  const headers = { authorization: 'Bearer token-of-order-desk-0123456789' }
  expect(await ask(another, ['skills/get', { uri }], headers)).toMatchObject({
    result: { skill: { uri } },
  })
})

test.each([
  ['knows its agent', {}],
  ['does not know its agent', { sources: [new AgentsAtHand({ other: echo })] }],
])('publishes no inner skill of a folder with a SKILL.md while it %s', async (_, options) => {
  await using folder = await skillFolder()
  await folder.write('support/SKILL.md', manifestOf('support'))
  await using gateway = gatewayOf(folder, { auth, ...options })
  const { result } = await ask(gateway, ['skills/list'], OTHER)
  expect(urisIn(result?.['skills'])).toEqual([REFUND])
  expect(await ask(gateway, ['skills/get', { uri: GREET }], OTHER)).toHaveProperty('error')
  const own = await ask(gateway, ['skills/list'], SUPPORTER)
  expect(urisIn(own.result?.['skills'])).toEqual([REFUND, 'skill://support/SKILL.md', GREET])
})

test('serves a folder that is one skill to callers of the agent of that name, if there is one', async () => {
  await using folder = await skillFolder()
  await folder.write('support/SKILL.md', manifestOf('support'))
  await rm(join(folder.path, 'support/greet'), { recursive: true })
  await using gateway = gatewayOf(folder, { auth })
  const { result } = await ask(gateway, ['skills/list'], OTHER)
  expect(urisIn(result?.['skills'])).toEqual([REFUND])
})

test('goes by the scopes of the tools of an agent', async () => {
  await using folder = await skillFolder()
  const tools = { overrides: { support: { scopes: ['staff'] } } }
  await using gateway = gatewayOf(folder, { auth, tools })
  const { result } = await ask(gateway, ['skills/list'], SUPPORTER)
  expect(urisIn(result?.['skills'])).toEqual([REFUND])
})

test('warns once of a folder with a SKILL.md and inner skills', async () => {
  await using folder = await skillFolder()
  await folder.write('support/SKILL.md', manifestOf('support'))
  const clock = new ManualClock()
  const warn = vi.fn<(message: string) => void>()
  await using gateway = gatewayOf(folder, { clock, log: { warn, error: warn } })
  await ask(gateway, ['skills/list'])
  await clock.advance(5000)
  await ask(gateway, ['skills/list'])
  const texts = warn.mock.calls.map(([message]) => message)
  expect(texts.filter((text) => text.includes('Skill folder support'))).toHaveLength(1)
})

test('reads pages of skills, with cursors of one caller', async () => {
  await using folder = await skillFolder()
  for (let index = 0; index < 60; index++) {
    await folder.write(`many-${index}/SKILL.md`, manifestOf(`many-${index}`))
  }
  await using gateway = gatewayOf(folder, { auth })
  const first = await ask(gateway, ['skills/list'], OTHER)
  const cursor = first.result?.['nextCursor']
  const second = await ask(gateway, ['skills/list', { cursor }], OTHER)
  expect(second.result).not.toHaveProperty('nextCursor')
  const uris = [first, second].flatMap(({ result }) => urisIn(result?.['skills']))
  expect(new Set(uris).size).toBe(61)
  for (const wrong of [
    ask(gateway, ['skills/list', { cursor }], SUPPORTER),
    ask(gateway, ['skills/list', { cursor: 5 }], OTHER),
  ]) {
    expect(await wrong).toMatchObject({ error: { code: -32_602 } })
  }
})

test('serves a changed skill after five seconds, and never a file that fits no entry', async () => {
  await using folder = await skillFolder()
  const clock = new ManualClock()
  await using gateway = gatewayOf(folder, { clock })
  const before = await ask(gateway, ['skills/get', { uri: REFUND }])
  await folder.write('refund/SKILL.md', manifestOf('refund', 'Be quick.\n'))
  expect(await ask(gateway, ['resources/read', { uri: REFUND }])).toMatchObject({
    error: { code: -32_603 },
  })
  expect(await ask(gateway, ['skills/get', { uri: REFUND }])).toEqual(before)
  await clock.advance(5000)
  const after = await ask(gateway, ['skills/get', { uri: REFUND }])
  expect(after.result?.['skill']).not.toEqual(before.result?.['skill'])
  const { result } = await ask(gateway, ['resources/read', { uri: REFUND }])
  expect(result?.['contents']).toMatchObject([{ text: expect.stringContaining('Be quick.') }])
})

test('does not take the id of an agent for its name', async () => {
  await using folder = await skillFolder()
  const agents = new AgentsAtHand()
  agents.join('support', echo, { name: 'Help Desk' })
  await using gateway = gatewayOf(folder, { sources: [agents, new AgentsAtHand({ other: echo })] })
  const { result } = await ask(gateway, ['tools/list'])
  expect(JSON.stringify(result)).not.toContain('skill://')
  await folder.write('support/SKILL.md', manifestOf('support'))
  await rm(join(folder.path, 'support/greet'), { recursive: true })
  await using another = gatewayOf(folder, { sources: [agents], auth })
  const listed = await ask(another, ['skills/list'], OTHER)
  expect(urisIn(listed.result?.['skills'])).toEqual([REFUND, 'skill://support/SKILL.md'])
})

describe('a change of the list of skills', () => {
  const changed = (list: string): object => ({ method: `notifications/${list}/list_changed` })

  async function listening(
    path: string,
    request: (session: string) => Request = (session) => get(inSession(session)),
  ) {
    const clock = new ManualClock()
    const gateway = gatewayOf({ path }, { clock })
    const fetch = (each: Request): Promise<Response> => gateway.fetch(each)
    await ask(gateway, ['skills/list'])
    const events = eventsOf(await gateway.fetch(request(await openSession(fetch))))
    const next = async (): Promise<unknown> => {
      for (;;) {
        const { value, done } = await events.next()
        if (done) return undefined
        if (value.data !== '' && !value.data.includes('acknowledged')) return JSON.parse(value.data)
      }
    }
    const scan = async (): Promise<void> => {
      await clock.advance(5000)
      await ask(gateway, ['skills/list'])
    }
    return {
      next,
      scan,
      [Symbol.asyncDispose]: async () => {
        await events.return(undefined)
        await gateway.close()
      },
    }
  }

  test.each([
    ['of a session', (session: string) => get(inSession(session))],
    [
      'of 2026-07-28',
      () => {
        const notifications = { toolsListChanged: true, resourcesListChanged: true }
        return modern('subscriptions/listen', { notifications })
      },
    ],
  ])('is announced to a client %s when a scan finds it', async (_, request) => {
    await using folder = await skillFolder()
    await using client = await listening(folder.path, request)
    await folder.write('refund/SKILL.md', manifestOf('refund', 'Another body.\n')) // changes no list
    await client.scan()
    await folder.write('pay/SKILL.md', manifestOf('pay'))
    await client.scan()
    expect(await client.next()).toMatchObject(changed('resources'))
    await folder.write('support/thank/SKILL.md', manifestOf('thank'))
    await client.scan()
    // The tool of the agent names its skills.
    expect(await client.next()).toMatchObject(changed('tools'))
    expect(await client.next()).toMatchObject(changed('resources'))
  })

  test('is announced when a folder is there that a scan did not find', async () => {
    await using folder = await skillFolder()
    await using client = await listening(join(folder.path, 'later'))
    await folder.write('later/refund/SKILL.md', manifestOf('refund'))
    await client.scan()
    expect(await client.next()).toMatchObject(changed('resources'))
  })
})

test('warns of a folder that cannot be read, and reads it once it is there', async () => {
  await using folder = await skillFolder()
  const path = join(folder.path, 'later')
  const warn = vi.fn<(message: string) => void>()
  await using gateway = gatewayOf({ path }, { log: { warn, error: warn } })
  expect(await ask(gateway, ['skills/list'])).toMatchObject({ error: { code: -32_603 } })
  expect(warn).toHaveBeenCalledWith(
    expect.stringContaining('skills cannot be read'),
    expect.anything(),
  )
  const { result } = await ask(gateway, ['tools/list'])
  expect(result?.['tools']).toHaveLength(2)
  expect(await ask(gateway, ['resources/list'])).toMatchObject({ result: { resources: [] } })
  await ask(gateway, ['resources/list'])
  const texts = warn.mock.calls.map(([message]) => message)
  expect(texts.filter((text) => text.includes('skills'))).toEqual([
    expect.stringContaining('skills cannot be read'),
  ])
  await folder.write('later/refund/SKILL.md', manifestOf('refund'))
  const listed = await ask(gateway, ['skills/list'])
  expect(urisIn(listed.result?.['skills'])).toEqual([REFUND])
})

test('keeps the skills of the last scan while the folder cannot be read', async () => {
  await using folder = await skillFolder()
  const clock = new ManualClock()
  await using gateway = gatewayOf({ path: join(folder.path, 'support') }, { clock })
  const before = await ask(gateway, ['skills/list'])
  await rm(join(folder.path, 'support'), { recursive: true })
  await clock.advance(5000)
  expect(await ask(gateway, ['skills/list'])).toEqual(before)
})

test('answers with the skills of the last scan while a scan does not end', async () => {
  const clock = new ManualClock()
  await using folder = await skillFolder()
  const warn = vi.fn<(message: string) => void>()
  await using gateway = gatewayOf(folder, { clock, log: { warn, error: warn } })
  const listed = await ask(gateway, ['skills/list'])
  const named = await ask(gateway, ['tools/list'])
  const scan = vi.spyOn(SkillCatalog.prototype, 'reload').mockReturnValue(new Promise(() => {}))
  onTestFinished(() => scan.mockRestore())
  await clock.advance(5000)
  expect(await ask(gateway, ['tools/list'])).toEqual(named)
  const waiting = ask(gateway, ['skills/list'])
  await vi.waitFor(() => expect(scan).toHaveBeenCalledOnce())
  await clock.advance(10_000)
  expect(await waiting).toEqual(listed)
  expect(warn.mock.calls).toEqual([[expect.stringContaining('within 10 s'), undefined]])
  expect(await ask(gateway, ['skills/list'])).toEqual(listed)
  expect(scan).toHaveBeenCalledOnce()
})

test('finds the folder of a file relative to it', async () => {
  const { config, sections } = await readConfig({ skillFolder: './skills' })
  await using made = await toOptions(config, {
    folder: '/srv/agents',
    onWarning: () => {},
    sections,
  })
  expect(made.options.skillFolder).toBe('/srv/agents/skills')
})
