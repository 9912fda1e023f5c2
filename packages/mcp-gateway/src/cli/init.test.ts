import { existsSync } from 'node:fs'
import {
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  realpath,
  rm,
  symlink,
  writeFile,
} from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

import { afterEach, beforeEach, describe, expect, test } from 'vitest'

import { run, start } from '../../test/command-line.ts'
import { connect } from '../../test/mcp-clients.ts'
import { readConfig } from './config-file.ts'

let root: string

beforeEach(async () => {
  root = await realpath(await mkdtemp(join(tmpdir(), 'mcp-gateway-init-')))
})

afterEach(() => rm(root, { recursive: true }))

/** Writes files below the root, with their folders. */
async function given(files: Readonly<Record<string, string>>): Promise<void> {
  for (const [name, text] of Object.entries(files)) {
    await mkdir(dirname(join(root, name)), { recursive: true })
    await writeFile(join(root, name), text)
  }
}

const read = (name: string): Promise<string> => readFile(join(root, name), 'utf8')
const graphs = (entries: object): string => JSON.stringify({ graphs: entries })

/** Makes the packages of this workspace importable from the root, as an installation does. */
async function install(): Promise<void> {
  const modules = fileURLToPath(new URL('../../node_modules', import.meta.url))
  await symlink(modules, join(root, 'node_modules'))
}

async function sourcesOf(name = 'gateway.yaml'): Promise<readonly unknown[]> {
  return (await readConfig(await read(name))).config.sources
}

describe('init in an empty folder', () => {
  test('writes a project that passes the check, and serves', async () => {
    const { code, out, err } = await run(['init', root])
    expect([code, err]).toEqual([0, ''])
    const written = ['gateway.yaml', 'graph.ts', 'langgraph.json', 'package.json']
    expect((await readdir(root)).toSorted()).toEqual(written)
    for (const name of written) expect(out).toContain(`\n  ${name} `)
    expect(out).toMatch(/Next:\n {2}cd .*\n {2}npm install\n {2}npx mcp-gateway check .*\n {2}npx/)

    await install()
    const checked = await run(['check', join(root, 'gateway.yaml'), '--json'])
    expect(checked).toMatchObject({ code: 0, err: '' })
    expect(JSON.parse(checked.out)).toMatchObject({ tools: [{ name: 'assistant' }], warnings: [] })

    const running = start([join(root, 'gateway.yaml'), '--port', '0'])
    const [url = ''] = await running.said('stdout', /http:\/\/127\.0\.0\.1:\d+\/mcp/)
    {
      await using client = await connect('v1', url)
      const { content } = await client.callTool('assistant', 'hello')
      expect(content).toMatchObject([{ text: 'You said: hello' }])
    }
    running.signal('SIGTERM')
    expect(await running.code).toBe(0)
  })

  test('takes the versions of packages from the manifest of the gateway', async () => {
    await run(['init', root])
    const own = JSON.parse(await readFile(new URL('../../package.json', import.meta.url), 'utf8'))
    const { type, dependencies } = JSON.parse(await read('package.json'))
    expect(type).toBe('module')
    expect(dependencies).toEqual({
      '@langchain/core': own.peerDependencies['@langchain/core'],
      '@langchain/langgraph': own.peerDependencies['@langchain/langgraph'],
      [own.name]: `^${own.version}`,
    })
  })

  test('writes comments that are valid settings when they are switched on', async () => {
    await run(['init', root])
    const switchedOn = (await read('gateway.yaml')).replaceAll(/^# (?=[a-z]+:)/gm, '')
    const { config } = await readConfig(switchedOn.replace('…', 'a'.repeat(64)))
    expect(config).toMatchObject({ auth: { tokens: {} }, store: { dir: './.mcp-gateway' } })
  })

  test('creates the folder', async () => {
    expect(await run(['init', join(root, 'a', 'new one')])).toMatchObject({ code: 0 })
    expect(existsSync(join(root, 'a', 'new one', 'gateway.yaml'))).toBe(true)
  })

  test('names the commands of the package manager that runs it', async () => {
    const pnpm = await run(['init', root], { npm_config_user_agent: 'pnpm/12.21.0 npm/? node/v24' })
    expect(pnpm.out).toMatch(/ {2}pnpm install\n {2}pnpm exec mcp-gateway check /)
  })
})

describe('init in a project with graphs', () => {
  test('writes only a gateway.yaml, and lists the graphs', async () => {
    const text =
      '\uFEFF{\r\n  "graphs": { "a": "./a.mjs:graph", "b": { "path": "./a.mjs:graph" } }\r\n}\r\n'
    await given({ 'langgraph.json': text, 'package.json': '{}\r\n' })
    const { code, out, err } = await run(['init', root])
    expect([code, err]).toEqual([0, ''])
    expect(out).toContain('Graphs of langgraph.json: a, b\n')
    expect(out).toContain('\n  npm install @x/mcp-gateway\n')
    expect(await readdir(root)).toEqual(['gateway.yaml', 'langgraph.json', 'package.json'])
    expect([await read('langgraph.json'), await read('package.json')]).toEqual([text, '{}\r\n'])
    expect(await sourcesOf()).toEqual([{ type: 'langgraph', config: './langgraph.json' }])
  })

  test('finds the langgraph.json of the project in a folder above', async () => {
    await given({ 'langgraph.json': graphs({ a: './a.ts:a' }), 'package.json': '{}' })
    await given({ 'apps/gateway/.keep': '', 'pnpm-lock.yaml': '' })
    const { out } = await run(['init', join(root, 'apps/gateway')])
    expect(out).toContain('Graphs of ../../langgraph.json: a\n')
    expect(out).toContain('pnpm add @x/mcp-gateway\n')
    expect(await sourcesOf('apps/gateway/gateway.yaml')).toMatchObject([
      { config: '../../langgraph.json' },
    ])
  })

  test('leaves a langgraph.json above that belongs to another repository', async () => {
    await given({ 'langgraph.json': graphs({ a: './a.ts:a' }), 'inner/.git/HEAD': '' })
    const { out } = await run(['init', join(root, 'inner')])
    expect(out).not.toContain('Graphs of')
    expect(await sourcesOf('inner/gateway.yaml')).toMatchObject([{ config: './langgraph.json' }])
  })

  test('offers the graphs of all folders of a monorepo', async () => {
    const config = graphs({ a: './a.ts:a' })
    await given({ 'apps/b c/langgraph.json': config, 'apps/a/langgraph.json': config })
    await given({ 'node_modules/x/langgraph.json': config, '.git/HEAD': '' })
    expect(await run(['init', root])).toMatchObject({ code: 0 })
    expect(await sourcesOf()).toMatchObject([
      { config: './apps/a/langgraph.json' },
      { config: './apps/b c/langgraph.json' },
    ])
  })

  test.each(['./agent.py:graph', 'my_agents.support:graph', { path: './agent.py:make' }])(
    'says how graphs in Python are served: %j',
    async (entry) => {
      await given({ 'langgraph.json': graphs({ support: entry, other: './other.ts:graph' }) })
      const { code, out } = await run(['init', root])
      expect(code).toBe(0)
      expect(out).toContain('Node cannot run graphs in Python (support): LangGraph')
      expect(out).toMatch(
        /npm install @x\/mcp-gateway @langchain\/langgraph-sdk\n {2}langgraph dev/,
      )
      expect(await sourcesOf()).toEqual([
        { type: 'langgraph-server', url: 'http://127.0.0.1:2024' },
      ])
      expect(await run(['check', join(root, 'gateway.yaml')])).toMatchObject({ code: 0, err: '' })
    },
  )

  test('writes nothing if the langgraph.json is wrong', async () => {
    await given({ 'langgraph.json': '{ "graphs": [] }' })
    const { code, out, err } = await run(['init', root])
    expect([code, out]).toEqual([1, ''])
    expect(err).toMatch(/^mcp-gateway: graphs in \S+langgraph\.json must be an object.*\n$/)
    expect(await readdir(root)).toEqual(['langgraph.json'])
  })
})

describe('init in a project without a langgraph.json', () => {
  test('leaves package.json alone, and names the packages that it lacks', async () => {
    await given({ 'package.json': '{"dependencies":{"@x/mcp-gateway":"*"}}', 'src/app.ts': '' })
    const { out } = await run(['init', root])
    expect(out).toContain('npm install @langchain/core @langchain/langgraph @x/mcp-gateway\n')
    expect(await read('package.json')).toBe('{"dependencies":{"@x/mcp-gateway":"*"}}')
    expect(existsSync(join(root, 'graph.ts'))).toBe(true)
  })

  test('writes a langgraph.json for a graph that is named', async () => {
    await given({ 'package.json': '{}', 'src/support.ts': '' })
    const { code } = await run(['init', root, '--graph', `${root}/src/support.ts:graph`])
    expect(code).toBe(0)
    expect(JSON.parse(await read('langgraph.json'))).toEqual({
      graphs: { support: './src/support.ts:graph' },
    })
    expect(existsSync(join(root, 'graph.ts'))).toBe(false)
  })

  test.each([
    [{ 'graph.ts': '' }, [], /There is a graph\.ts in .*--graph/],
    [{}, ['--graph', './nowhere.ts:a'], /--graph: \.\/nowhere\.ts does not exist/],
    [{}, ['--graph', './agent.py:a'], /which is in Python: .*langgraph dev/],
    [{ 'langgraph.json': graphs({}) }, ['--graph', './b.ts:b'], /does not name .* add "b": "/],
  ])('writes nothing for %j and %j', async (files, args, message) => {
    await given(files)
    const { code, out, err } = await run(['init', root, ...args])
    expect([code, out]).toEqual([1, ''])
    expect(err).toMatch(message)
    expect(await readdir(root)).toEqual(Object.keys(files))
  })
})

describe('init where it cannot write', () => {
  test.each(['gateway.yaml', 'gateway.yml'])('changes nothing if there is a %s', async (name) => {
    await given({ [name]: 'sources: []\n' })
    const { code, out } = await run(['init', root])
    expect(code).toBe(0)
    expect(out).toContain(`${name} exists already. Nothing was changed.\nNext:\n`)
    expect(await readdir(root)).toEqual([name])
    expect(await read(name)).toBe('sources: []\n')
  })

  test('overwrites no broken link', async () => {
    await symlink(join(root, 'nowhere'), join(root, 'gateway.yaml'))
    const { code, err } = await run(['init', root])
    expect(code).toBe(1)
    expect(err).toMatch(/gateway\.yaml exists already/)
    expect(await readdir(root)).toEqual(['gateway.yaml'])
  })

  // Not even root can write there.
  test.runIf(process.platform === 'linux')('says that the folder is read-only', async () => {
    const { code, out, err } = await run(['init', '/proc/gateway'])
    expect([code, out]).toEqual([1, ''])
    expect(err).toMatch(/^mcp-gateway: \/proc\/gateway\/package\.json cannot be written: .*\n$/)
  })
})
