import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { workspaceVersions } from '../workspace-versions.ts'
import { runCommand } from './program.ts'
import { projectFiles, TEMPLATES } from './project.ts'

let root: string

beforeEach(async () => {
  root = await realpath(await mkdtemp(join(tmpdir(), 'create-mcp-agent-')))
})

afterEach(() => rm(root, { recursive: true }))

interface Ran {
  readonly code: number
  readonly out: string
  readonly err: string
}

interface RunOptions {
  readonly env?: Readonly<Record<string, string>>
  /** What a person types. `null`: the input ends. Without it, there is no terminal. */
  readonly typed?: readonly (string | null)[]
}

/** Runs the command. At a terminal, each answer is typed when its question was asked. */
async function run(args: readonly string[], { env = {}, typed }: RunOptions = {}): Promise<Ran> {
  const isTTY = typed !== undefined
  const stdin = Object.assign(new PassThrough(), { isTTY })
  const stdout = Object.assign(new PassThrough(), { isTTY })
  const stderr = new PassThrough()
  const texts = { out: '', err: '' }
  const answers = [...(typed ?? [])]
  stdout.on('data', (chunk) => {
    texts.out += String(chunk)
    if (!String(chunk).endsWith('): ')) return
    const answer = answers.shift()
    if (answer === null) stdin.end()
    else if (answer !== undefined) stdin.write(`${answer}\n`)
  })
  stderr.on('data', (chunk) => (texts.err += String(chunk)))
  const context = { args, env, stdin, stdout, stderr, onSignal: () => () => {}, exit: () => {} }
  const code = await runCommand(context, workspaceVersions())
  return { code, ...texts }
}

describe('create-mcp-agent', () => {
  test.each(TEMPLATES)('creates a project from the template %s', async (template) => {
    const folder = join(root, 'My Project')
    const { code, out, err } = await run([folder, '--yes', '--template', template])
    expect([code, err]).toEqual([0, ''])
    expect(out).toContain(`Next:\n  cd ${JSON.stringify(folder)}\n  npm install\n  npm run test\n`)
    const files = await readdir(folder)
    expect(files).toEqual(expect.arrayContaining(['.gitignore', 'README.md', 'tsconfig.json']))
    expect(files.includes('gateway.yaml')).toBe(template !== 'agent')
    expect(existsSync(join(folder, 'src/agent.ts'))).toBe(template !== 'gateway')
    const manifest = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8'))
    expect(manifest.name).toBe('my-project')
    const versions = { ...manifest.dependencies, ...manifest.devDependencies }
    const workspace = workspaceVersions()
    for (const [name, version] of Object.entries(versions)) expect(version).toBe(workspace[name])
  })

  test('takes the defaults if there is no terminal', async () => {
    expect(await run([join(root, 'a')])).toMatchObject({ code: 0, err: '' })
    expect(existsSync(join(root, 'a', 'src', 'agent.ts'))).toBe(true)
  })

  test('asks a person for what is not given, until the answer is a template', async () => {
    const typed = [join(root, 'asked'), 'graph', 'gateway']
    const { code, out } = await run([], { typed })
    expect(code).toBe(0)
    expect(out).toContain('from the template "gateway"')
    expect(existsSync(join(root, 'asked', 'src', 'graph.ts'))).toBe(true)
  })

  test('creates nothing if the person leaves', async () => {
    const { code, err } = await run([join(root, 'left')], { typed: [null] })
    expect([code, err]).toEqual([1, 'create-mcp-agent: Nothing was created\n'])
    expect(await readdir(root)).toEqual([])
  })

  test('writes into the clone of an empty repository, and into no other folder with files', async () => {
    await mkdir(join(root, '.git'))
    expect(await run([root, '--yes'])).toMatchObject({ code: 0 })
    const again = await run([root, '--yes'])
    expect(again).toMatchObject({ code: 1, out: '' })
    expect(again.err).toMatch(/has files, such as .*: name another folder\n$/)
  })

  test('says which path cannot be written', async () => {
    await writeFile(join(root, 'file'), '')
    const { code, err } = await run([join(root, 'file', 'project'), '--yes'])
    expect(code).toBe(1)
    expect(err).toMatch(/^create-mcp-agent: \S+project cannot be written: .*\n$/)
  })

  test('names the commands of the package manager that runs it', async () => {
    const env = { npm_config_user_agent: 'bun/1.4.5 npm/? node/v24' }
    const { out } = await run([join(root, 'a'), '--yes'], { env })
    expect(out).toContain('  bun install\n  bun run test\n')
  })

  test('refuses an unknown template with exit code 2, and explains itself', async () => {
    const refused = await run([join(root, 'a'), '--template', 'graph'])
    expect(refused).toMatchObject({ code: 2, out: '' })
    expect(refused.err).toContain('agent, gateway, both')
    const { code, out } = await run(['--help'])
    expect(code).toBe(0)
    expect(out).toMatch(/^Usage: create-mcp-agent \[options\] \[folder\]\n/)
  })
})

test('the templates of a gateway begin with the files that `mcp-gateway init` writes', async () => {
  const versions = workspaceVersions()
  const files = await projectFiles({ template: 'gateway', name: 'any', versions })
  for (const [path, name] of [
    ['src/graph.ts', 'graph.ts'],
    ['gateway.yaml', 'gateway.yaml'],
  ] as const) {
    const first = new URL(`../../mcp-gateway/first-graph/${name}`, import.meta.url)
    expect(files.get(path)).toBe(await readFile(first, 'utf8'))
  }
})
