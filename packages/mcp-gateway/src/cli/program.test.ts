import { existsSync } from 'node:fs'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { createServer, type AddressInfo } from 'node:net'
import { join } from 'node:path'
import { Readable } from 'node:stream'

import { afterEach, beforeEach, describe, expect, test } from 'vitest'

import { run, start } from '../../test/command-line.ts'
import { configFolder, YAML, type ConfigFolder } from '../../test/config-folder.ts'
import { connect } from '../../test/mcp-clients.ts'
import { OPENING } from '../../test/rpc-requests.ts'
import { DiskGatewayStore } from '../store/sqlite-store.ts'

let folder: ConfigFolder

beforeEach(async () => {
  folder = await configFolder()
  await folder.graphs('support')
})

afterEach(() => folder[Symbol.asyncDispose]())

const file = (name: string, text: string): Promise<string> => folder.file(name, text)
const graphs = (...names: readonly string[]): Promise<void> => folder.graphs(...names)

describe('the command line', () => {
  test.each([
    [['--help']],
    [['help']],
    [['serve', '--help']],
    [['work', '--help']],
    [['init', '--help']],
    [['help', 'check']],
    [['token', '--help']],
  ])('prints the usage for %j', async (args) => {
    const { code, out, err } = await run(args)
    expect([code, err]).toEqual([0, ''])
    expect(out).toMatch(/^Usage: mcp-gateway/)
    for (const line of out.split('\n')) expect(line.length).toBeLessThan(101)
  })

  test.each([
    [['chekc'], /^mcp-gateway: Unknown command "chekc": see mcp-gateway --help\n$/],
    [
      ['serve', '--prot', '1'],
      /^mcp-gateway: unknown option '--prot' \(Did you mean --port\?\) \(see mcp-gateway serve --help\)\n$/,
    ],
    [['check', 'a', 'b'], /^mcp-gateway: too many arguments for 'check'.* 2: a, b\..*\n$/],
    [
      ['serve', '/nowhere/g.yaml', '--port', 'high', '--log-level', 'loud'],
      /^mcp-gateway: --port: setting "http\.port" must be .*\nmcp-gateway: --log-level: .*'loud'.*\nmcp-gateway: See \S+#config\n$/,
    ],
  ])('refuses the command line %j', async (args, message) => {
    const { code, out, err } = await run(args)
    expect(code).toBe(2)
    expect(out).toBe('')
    expect(err).toMatch(message)
  })

  test.each([
    [['check', '/nowhere/g.yaml'], '/nowhere/g.yaml'],
    [['check'], 'gateway.yaml'],
  ])('names a missing file in one line: %j', async (args, name) => {
    expect(await run(args)).toEqual({
      code: 1,
      out: '',
      err: `mcp-gateway: ${name}: there is no such file: name another, or write a first one with mcp-gateway init\n`,
    })
  })

  test('refuses a folder in place of a configuration', async () => {
    expect(await run(['check', '.'])).toEqual({
      code: 1,
      out: '',
      err: 'mcp-gateway: .: it is a folder: name the configuration file in it\n',
    })
  })
})

describe('check', () => {
  test('prints the configuration without secrets, and the tools', async () => {
    const path = await file('g.yaml', `${YAML}stateKey: "\${KEY}"\n`)
    const { code, out, err } = await run(['check', path], { KEY: 'k'.repeat(40) })
    expect([code, err]).toEqual([0, ''])
    expect(out).toContain('port: 8000')
    expect(out).not.toMatch(/stateKey|kkkk/)
    expect(out).toMatch(/1 tool\n {2}support {2}\S/)
  })

  test('reads files in the encodings that Windows writes', async () => {
    const config = JSON.stringify({ graphs: { support: './graph.ts:graph' } })
    await writeFile(await file('langgraph.json', ''), `\uFEFF${config}`, 'utf16le')
    await file('package.json', '\uFEFF{ "type": "module" }\r\n')
    await file('graph.ts', "\uFEFFexport { graph } from './graph.mjs'\r\n")
    const path = await file('g.yaml', '')
    await writeFile(path, `\uFEFF${YAML.replaceAll('\n', '\r\n')}`, 'utf16le')
    const { code, out, err } = await run(['check', path])
    expect([code, err]).toEqual([0, ''])
    expect(out).toMatch(/1 tool\n {2}support {2}\S/)
  })

  test('lists tools that were left out, and fails if a source fails', async () => {
    await graphs('support', 'billing')
    const tools = 'tools: { exclude: [billing] }\n'
    const { code, out } = await run(['check', await file('g.yaml', `${YAML}${tools}`), '--json'])
    expect(code).toBe(0)
    expect(JSON.parse(out)).toMatchObject({
      tools: [{ name: 'support', agent: 'support' }],
      collisions: [],
      dropped: [{ agent: 'billing', why: 'filtered' }],
      sources: [{ name: 'langgraph', state: 'started' }],
      warnings: [],
      settings: { tools: { exclude: ['billing'] } },
    })
    const wrong = await file('w.yaml', YAML.replace('langgraph.json', 'nowhere.json'))
    const failed = await run(['check', wrong])
    expect(failed.code).toBe(1)
    expect(failed.out).toContain('Sources that failed')
    expect(failed.err).toMatch(/^mcp-gateway: \S+w\.yaml:3: langgraph: \S+nowhere\.json does not/)
  })

  test('lists the tools of the gateway itself after those of agents', async () => {
    const own = 'tools: { tasks: pair }\nruns: { mode: thread }\n'
    const path = await file('g.yaml', `${YAML}${own}`)
    const { out } = await run(['check', path])
    expect(out).toMatch(
      /4 tools\n {2}support +support\n {2}support_start .*\n {2}agent_conversations .*\n {2}agent_result /,
    )
    expect(JSON.parse((await run(['check', path, '--json'])).out)).toMatchObject({
      ownTools: [{ name: 'agent_conversations', title: 'Conversations' }, { name: 'agent_result' }],
    })
  })

  test('warns of graphs that cannot be loaded, and of graphs that cannot be called', async () => {
    const path = await file('g.yaml', YAML)
    await file('typed.mjs', 'export const graph = { channels: { city: {} }, async stream() {} }')
    const all = { support: './graph.mjs:graph', deaf: './typed.mjs:graph', bad: './none.mjs:a' }
    await file('langgraph.json', JSON.stringify({ graphs: all }))
    const { code, out } = await run(['check', path])
    expect(code).toBe(0)
    expect(out).toMatch(/2 tools\n/)
    expect(out).toContain('Every call of the graph "deaf" will fail: it takes no messages')
    expect(out).toContain('The graph "bad" is not offered: it cannot be loaded')
  })

  test('begins with a package that a graph needs and that is not installed, and names it once', async () => {
    const path = await file('g.yaml', YAML)
    await file('graph.mjs', "import 'no-such-package/prebuilt'")
    const { code, out, err } = await run(['check', path])
    expect(code).toBe(1)
    const text =
      'graph.mjs needs the package no-such-package, which is not installed: npm install no-such-package'
    expect(out).toMatch(/^Sources that failed\n {2}langgraph: /)
    expect(out.split(text)).toHaveLength(2)
    expect(err).toContain(text)
  })

  test('shows all lines of the error of a graph', async () => {
    const path = await file('g.yaml', YAML)
    await file('two.mjs', "throw new Error('first line\\nsecond line')")
    const both = { good: './graph.mjs:graph', two: './two.mjs:a' }
    await file('langgraph.json', JSON.stringify({ graphs: both }))
    const { out } = await run(['check', path])
    expect(out).toMatch(/two\.mjs cannot be loaded: first line\n {6}second line\n/)
  })

  test('warns of a context that a graph needs and nobody gives, and takes it from the file', async () => {
    const path = await file('g.yaml', YAML)
    const schema = `{ shape: { userId: { '~standard': { validate: (v) => (v ? { value: v } : { issues: [{ message: 'missing' }] }) } } } }`
    const builder = `builder: { _configRuntimeSchema: ${schema} }`
    await file(
      'needs.mjs',
      `export const graph = { channels: { messages: {} }, ${builder}, async stream() {} }`,
    )
    await file('langgraph.json', JSON.stringify({ graphs: { needs: './needs.mjs:graph' } }))
    const { out } = await run(['check', path])
    expect(out).toContain('Every call of the graph "needs" will fail: its context needs userId.')
    const config = 'config: ./langgraph.json'
    const given = YAML.replace(config, `${config}, context: { userId: u1 }`)
    expect((await run(['check', await file('c.yaml', given)])).out).not.toContain(
      'its context needs',
    )
    const asked = YAML.replace(config, `${config}, callerContext: [userId]`)
    expect((await run(['check', await file('d.yaml', asked)])).out).not.toContain(
      'its context needs',
    )
  })

  test('names the line of a section that its package refuses', async () => {
    const card = '  - { type: a2a, cards: ["https://user:hunter2@agent.example"] }\n'
    const { code, err } = await run(['check', await file('g.yaml', YAML + card)])
    expect(code).toBe(1)
    expect(err).toMatch(/^mcp-gateway: \S+g\.yaml:4: .* user name or a password/)
    expect(err).not.toContain('hunter2')
    const store = 'store:\n  { url: "redis://localhost", prefix: "a b" }\n'
    const served = await run([await file('s.yaml', YAML + store), '--port', '0'])
    expect(served.err).toMatch(/^mcp-gateway: \S+s\.yaml:4: .*`prefix` must have/)
  })

  test('names each mistake with its line', async () => {
    const path = await file('g.yaml', 'http:\n  prot: 1\nlog: { level: loud }\n')
    const { code, out, err } = await run(['check', path])
    expect([code, out]).toEqual([1, ''])
    expect(err.split('\n').toSorted()).toEqual([
      '',
      `mcp-gateway: ${path}:2: there is no setting "http.prot". Did you mean "http.port"?`,
      `mcp-gateway: ${path}:3: setting "log.level" must be 'trace', 'debug', 'info', 'warn', 'error' or 'silent', not 'loud'`,
      expect.stringMatching(/^mcp-gateway: See \S+#config$/),
    ])
  })

  test('finds all mistakes in one run: of shape, of parts, and of what they say together', async () => {
    const lines = [
      'sources:', // 1
      '  - { type: a2a, cards: ["https://user:hunter2@agent.example"] }', // 2
      '  - { type: smtp }', // 3
      '  - { type: langgraph, config: ./nowhere.json }', // 4
      'http:', // 5
      '  prot: 1', // 6
      '  host: 0.0.0.0', // 7
      'runs: { timeoutMs: 5m }', // 8
      'tools:', // 9
      '  include: [5, "^support$"]', // 10
      '  exclude: [".*"]', // 11
      '  overrides:', // 12
      '    one: { name: "a b" }', // 13
      '    two: { name: same }', // 14
      '    three: { name: same }', // 15
      'store: { dir: ./graph.mjs/data }', // 16
    ]
    const path = await file('g.yaml', `${lines.join('\n')}\n`)
    const { code, out, err } = await run(['check', path])
    expect([code, out]).toEqual([1, ''])
    const places = [...err.matchAll(/^mcp-gateway: \S+g\.yaml:(\d+): /gm)].map(([, at]) => at)
    expect(places.toSorted((a, b) => Number(a) - Number(b))).toEqual([
      '2',
      '3',
      '4',
      '6',
      '7',
      '8',
      '10',
      '10',
      '11',
      '13',
      '15',
      '16',
    ])
    expect(err.trim().split('\n')).toHaveLength(places.length + 1)
    expect(err).toMatch(/:8: setting "runs\.timeoutMs" .* milliseconds .* Write 300000\n/)
    expect(err).toMatch(/:10: tools\.include\[\d\] is a regular expression \(\^support\$\)/)
    expect(err).toMatch(/:4: langgraph: \S+nowhere\.json does not exist\n/)
    expect(err).not.toContain('hunter2')
  })

  test('counts skills, and names the file and the reason of those that are left out', async () => {
    const path = await file('g.yaml', `${YAML}skillFolder: ./skills\n`)
    const good = '---\nname: refund\ndescription: Pays money back\n---\nBe kind.\n'
    await file('skills/refund/SKILL.md', good)
    const { code, out } = await run(['check', path])
    expect([code, out]).toEqual([0, expect.stringContaining('\n1 skill\n')])
    expect(out).toContain('  skill://refund/SKILL.md  Pays money back\n')
    await file('skills/pay/SKILL.md', good)
    const broken = await run(['check', path])
    expect(broken.code).toBe(1)
    expect(broken.err).toMatch(/g\.yaml:\d+: Skill file pay\/SKILL\.md: .*refund/)
    const missing = await run(['check', await file('m.yaml', `${YAML}skillFolder: ./none\n`)])
    expect(missing.err).toMatch(/m\.yaml:\d+: the folder of skills cannot be read: .*none/)
  })

  test('names each wrong token and each wrong issuer', async () => {
    const auth = [
      'auth:',
      '  tokens:',
      '    one: { token: short }',
      '    two: { token: a-token-of-some-length, expiresAt: never }',
      '  issuers:',
      '    - { issuer: "http://login.example", audience: a }',
      '    - { issuer: "https://login.example", audience: a, jwksUrl: "http://login.example" }',
    ]
    const { code, err } = await run(['check', await file('g.yaml', `${YAML}${auth.join('\n')}\n`)])
    expect(code).toBe(1)
    const places = [...err.matchAll(/g\.yaml:(\d+): /g)].map(([, at]) => at)
    expect(places).toEqual(['6', '7', '9', '10'])
  })

  test('does not report what only follows from another mistake', async () => {
    const auth = 'auth:\n  tokns: { ci: { token: a-token-of-some-length } }\n'
    const http = 'http: { host: 0.0.0.0 }\n'
    const { err } = await run(['check', await file('g.yaml', `${YAML}${auth}${http}`)])
    expect(err).toMatch(
      /^mcp-gateway: \S+g\.yaml:5: there is no setting "auth\.tokns"\. Did you mean "auth\.tokens"\?.*\n$/,
    )
  })

  test('refuses an override that fits no skill, unless an agent is away', async () => {
    const tools = 'tools:\n  overrides:\n    suport: { title: Help }\n'
    const path = await file('g.yaml', `${YAML}${tools}`)
    const { code, out, err } = await run(['check', path])
    expect(code).toBe(1)
    expect(err).toMatch(
      /^mcp-gateway: \S+g\.yaml:6: tools\.overrides\["suport"\] matches no skill now\. See \S+#config\n$/,
    )
    expect(out).toMatch(/1 tool\n/)
    expect(out).not.toContain('matches no skill')
    const away = '  - { type: langgraph-server, url: "http://127.0.0.1:9" }\n'
    const later = await run(['check', await file('l.yaml', `${YAML}${away}${tools}`)])
    expect(later).toMatchObject({ code: 0, err: '' })
    expect(later.out).toContain('tools.overrides["suport"] matches no skill now')
  })

  test('warns of a token without scopes, and of a scope that no tool needs', async () => {
    const entry = (scopes: string): string => `{ token: a-token-of-some-length${scopes} }`
    const auth = `auth:\n  tokens:\n    bare: ${entry('')}\n    wrong: ${entry(", scopes: ['agent:suport:call']")}\n    good: ${entry(", scopes: ['agent:support:call']")}\n    all: ${entry(", scopes: ['*']")}\n`
    const { code, out } = await run(['check', await file('g.yaml', `${YAML}${auth}`)])
    expect(code).toBe(0)
    const [, warnings = ''] = out.split('\nWarnings\n')
    expect(warnings.trim().split('\n')).toEqual([
      expect.stringMatching(/^The token "bare" has no scopes, .*agent:support:call$/),
      expect.stringMatching(
        /"agent:suport:call" of the token "wrong"\. Did you mean "agent:support:call"\?$/,
      ),
    ])

    const free = 'tools: { overrides: { support: { scopes: [] } } }\n'
    const tokens = `auth: { tokens: { bare: ${entry('')} } }\n`
    const path = await file('f.yaml', `${YAML}${free}${tokens}`)
    expect((await run(['check', path])).out).not.toContain('Warnings')
  })

  test('names the line of a setting that only an authenticator refuses', async () => {
    const path = await file('g.yaml', `${YAML}auth:\n  tokens: {}\n`)
    const { code, err } = await run(['check', path])
    expect(code).toBe(1)
    expect(err).toMatch(
      /^mcp-gateway: \S+g\.yaml:5: .*empty list of tokens: `mcp-gateway token` makes one\. See \S+#config\n$/,
    )
  })
})

describe('check of mistakes that only matter when clients are served', () => {
  const shared = 'store: { url: "redis://127.0.0.1:1" }\n'
  test.each([
    ['http: { host: 0.0.0.0 }\n', /:4: Without auth, everybody/],
    [
      shared,
      /g\.yaml: With a shared store, every process needs the same stateKey: .*openssl rand -hex 32/,
    ],
  ])('refuses %j with the same message as serve', async (text, message) => {
    const path = await file('g.yaml', `${YAML}${text}`)
    const checked = await run(['check', path])
    expect(checked).toMatchObject({ code: 1, out: '', err: expect.stringMatching(message) })
    const served = await run(['serve', path, '--port', '0'])
    expect(served.code).toBe(1)
    expect(served.err).toContain(checked.err)
  })

  test('accepts the options of serve', async () => {
    const path = await file('g.yaml', `${YAML}http: { host: 0.0.0.0 }\n`)
    const insecure = await run(['check', path, '--insecure'])
    expect(insecure).toMatchObject({ code: 0, err: '' })
    expect(insecure.out).toContain('only requests for localhost are answered at 0.0.0.0')
    const named = await file('n.yaml', `${YAML}http: { host: 0.0.0.0, allowedHosts: [agents] }\n`)
    expect((await run(['check', named, '--insecure'])).out).not.toContain('only requests for')
    expect(await run(['check', path, '--stdio'])).toMatchObject({ code: 0, err: '' })
    const signed = `${YAML}auth: { tokens: { a: { token: a-token-of-some-length } } }\n`
    const refused = await run(['check', await file('a.yaml', signed), '--stdio'])
    expect(refused.err).toMatch(/a\.yaml:4: Over stdio/)
  })
})

describe('a store in a folder', () => {
  test('is left alone by check while a gateway uses it', async () => {
    await using store = new DiskGatewayStore(join(folder.path, 'data'))
    const path = await file('g.yaml', `${YAML}store: { dir: ./data }\n`)
    expect(await store.isReady()).toBe(true)
    expect(await run(['check', path])).toMatchObject({ code: 0, err: '' })
  })

  test('is not created by check', async () => {
    const path = await file('g.yaml', `${YAML}store: { dir: ./new/data }\n`)
    expect(await run(['check', path])).toMatchObject({ code: 0 })
    expect(existsSync(join(folder.path, 'new'))).toBe(false)
  })

  // Not even root can write there.
  test.runIf(process.platform === 'linux')('is refused if it cannot be written', async () => {
    const path = await file('g.yaml', `${YAML}store: { dir: /proc/gateway }\n`)
    const { code, err } = await run(['check', path])
    expect(code).toBe(1)
    expect(err).toMatch(/g\.yaml:4: \/proc\/gateway cannot be written: ENOENT: /)
  })

  test('is refused if its path leads through a file', async () => {
    const path = await file('g.yaml', `${YAML}store: { dir: ./graph.mjs/data }\n`)
    const { code, err } = await run(['check', path])
    expect(code).toBe(1)
    expect(err).toMatch(
      /g\.yaml:4: \.\/graph\.mjs\/data can be no folder: .*graph\.mjs is a file\. See \S+#config\n$/,
    )
  })
})

describe('token', () => {
  test('makes a token, and prints the same hash for it later', async () => {
    const made = await run(['token', '--json'])
    const { token, hash } = JSON.parse(made.out)
    expect(token).toMatch(/^[\w-]{43}$/)
    const again = start(['token', '--stdin', '--json'])
    Readable.from([`${token}\n`]).pipe(again.stdin)
    expect(await again.code).toBe(0)
    expect(JSON.parse(again.text('stdout'))).toEqual({ hash })
  })

  test.each([
    ['an empty token', '', 'There was no token'],
    ['a token that can be guessed', 'fifteen-letters', 'at least 16 characters'],
    ['a token with a space', 'of twenty characters', 'at least 16 characters'],
  ])('refuses %s', async (_what, token, why) => {
    const running = start(['token', '--stdin'])
    running.stdin.end(`${token}\n`)
    expect(await running.code).toBe(1)
    expect(running.text('stderr')).toContain(why)
    expect(running.text('stdout')).toBe('')
  })
})

describe('serve', () => {
  test('serves until SIGTERM, with the address on stdout and logs on stderr', async () => {
    const path = await file('g.yaml', `${YAML}http: { port: 1, metricsPath: /metrics }\n`)
    const running = start([path, '--port', '0'])
    const [url = ''] = await running.said('stdout', /http:\/\/127\.0\.0\.1:\d+\/mcp/)
    {
      await using client = await connect('v1', url)
      expect(await client.callTool('support', 'hello')).toMatchObject({
        content: [{ text: 'You said: hello' }],
      })
    }
    expect((await fetch(new URL('/readyz', url))).status).toBe(200)
    const metrics = await (await fetch(new URL('/metrics', url))).text()
    expect(metrics).toContain('mcp_gateway_runs_total{tool="support",outcome="done"} 1')
    running.signal('SIGTERM')
    expect(await running.code).toBe(0)
    expect(running.text('stdout')).toBe(`${url}\n`)
    for (const line of running.text('stderr').trim().split('\n')) JSON.parse(line)
    await expect(fetch(url)).rejects.toThrow(/fetch failed/)
  })

  test('ends at once after a second signal', async () => {
    const running = start([await file('g.yaml', YAML), '--port', '0'])
    await running.said('stdout', /mcp/)
    running.signal('SIGINT')
    running.signal('SIGTERM')
    expect(running.exits).toEqual([143])
    await running.code
  })

  test.each([['--port=0'], ['--stdio']])(
    'fails to start with %s if a source can never work',
    async (how) => {
      const broken = YAML.replace('langgraph.json', 'nowhere.json')
      const good = '  - { type: langgraph, config: ./langgraph.json }\n'
      const path = await file('g.yaml', broken + good)
      const { code, err } = await run([path, how, '--log-level', 'silent'])
      expect(code).toBe(1)
      expect(err).toMatch(
        /^mcp-gateway: \S+g\.yaml:3: langgraph: \S+nowhere\.json does not exist\. See \S+#config\n$/,
      )
    },
  )

  test('serves the other sources if one cannot be reached now', async () => {
    const away = '  - { type: langgraph-server, url: "http://127.0.0.1:9" }\n'
    const running = start([await file('g.yaml', YAML + away), '--port', '0'])
    const [url = ''] = await running.said('stdout', /http:\/\/127\.0\.0\.1:\d+\/mcp/)
    await running.said('stderr', /langgraph-server http:\/\/127\.0\.0\.1:9 cannot be reached/)
    await using client = await connect('v1', url)
    expect((await client.listTools()).tools).toMatchObject([{ name: 'support' }])
    running.signal('SIGTERM')
    expect(await running.code).toBe(0)
  })

  test('names the place of a port that is in use, and what to do', async () => {
    const listener = createServer()
    await once(listener.listen(0, '127.0.0.1'), 'listening')
    const { port } = listener.address() as AddressInfo
    const path = await file('g.yaml', `${YAML}http: { port: ${port} }\n`)
    const { code, err } = await run([path, '--log-level', 'silent'])
    listener.close()
    expect(code).toBe(1)
    expect(err).toMatch(
      /^mcp-gateway: \S+g\.yaml:4: .*EADDRINUSE.*\. Choose another http\.port.*\n$/,
    )
  })

  test('says which settings a worker needs, and where they belong', async () => {
    const store = 'store:\n  { url: "redis://127.0.0.1:1" }\n'
    for (const [text, line] of [
      [YAML, ''],
      [YAML + store, ':4'],
    ] as const) {
      const { code, out, err } = await run(['work', await file('g.yaml', text)])
      expect([code, out]).toEqual([1, ''])
      expect(err).toContain(`g.yaml${line}: Without an engine there are no queued tasks to execute`)
      expect(err).toContain('set store.url, and store.tasks')
    }
  })

  test('says each time that a worker cannot connect to the store, until a signal', async () => {
    const store = 'store: { url: "redis://127.0.0.1:1", tasks: 10 }\n'
    const secrets = `stateKey: ${'k'.repeat(40)}\n`
    const path = await file('g.yaml', YAML + store + secrets)
    const worker = start(['work', path, '--port', '0'])
    const line = /"msg":"Queued tasks are not executed here yet.*\n/
    const [first] = await worker.said('stderr', line)
    expect(first).toMatch(/next attempt is in 250 ms/)
    expect(worker.text('stderr')).toMatch(
      /Redis at 127\.0\.0\.1:\d+ cannot be used: .*ECONNREFUSED/,
    )
    await worker.said('stderr', /next attempt is in 500 ms/)
    const [, url = ''] = await worker.said('stderr', /"url":"(\S+?)".*"answering probes"/)
    expect((await fetch(`${url}/healthz`)).status).toBe(200)
    const ready = await fetch(`${url}/readyz`)
    expect(ready.status).toBe(503)
    expect(await ready.json()).toMatchObject({ reasons: ['store'] })
    worker.signal('SIGTERM')
    expect(await worker.code).toBe(0)
    expect(worker.text('stdout')).toBe('')
  })

  test('warns if there are no sources', async () => {
    const { code, out } = await run(['check', await file('g.yaml', 'http: { port: 1 }\n')])
    expect(code).toBe(0)
    expect(out).toContain('There are no tools: sources is empty')
  })

  test('refuses a public address without auth, with the place of the setting', async () => {
    const path = await file('g.yaml', YAML)
    const flags = '--host 0.0.0.0 --port 0 --log-level silent'.split(' ')
    const { code, err } = await run([path, ...flags])
    expect(code).toBe(1)
    expect(err).toMatch(/^mcp-gateway: --host: Without auth, .*--insecure\. See \S+#config\n$/)
  })

  test('keeps stdout for the protocol over stdio, and ends with stdin', async () => {
    const running = start(['serve', await file('g.yaml', YAML), '--stdio'])
    running.stdin.write(`${JSON.stringify(OPENING[0])}\n`)
    await running.said('stdout', /"serverInfo"/)
    running.stdin.end()
    expect(await running.code).toBe(0)
    for (const line of running.text('stdout').trim().split('\n')) JSON.parse(line)
  })
})
