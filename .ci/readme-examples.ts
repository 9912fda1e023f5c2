// Type-checks every TypeScript example in the documents of published packages as it stands: a user who copies
// one must not have to guess an import. Every example that calls or serves
// must say how it ends. Examples that call a server, and need no model, are run too. Examples of doc comments
// (`@example`) are type-checked only.
import { execFile } from 'node:child_process'
import { glob, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import {
  startLegacyServer,
  startModernServer,
  startTaskServer,
} from '../packages/mcp-testing/src/index.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
/** Beside the packages, so that an import resolves as it does for the code of that package. */
const FOLDER = '.readme-examples'
/** Packages whose dependencies the examples of a package or page use, if those of the owner do not suffice. */
const OWNERS: Readonly<Record<string, string>> = {
  'mcp-testing': join('apps', 'playground'), // depends on a package that mcp-testing cannot depend on
  'docs/guides/approvals.md': join('packages', 'langchain-mcp'), // needs `@x/mcp-transport/auth`
  'docs/guides/users-and-tokens.md': join('packages', 'langchain-mcp'), // needs `@x/mcp-transport/auth`
  'docs/gateway/sessions.md': join('packages', 'mcp-gateway'), // needs Express and Fastify
  'docs/gateway/files.md': join('packages', 'mcp-gateway'), // needs `@modelcontextprotocol/client`
  'docs/gateway/sign-in.md': join('packages', 'mcp-gateway'), // needs Hono
}
/** Examples that cannot run here: they need a model, a file, an environment or a prompt that is not in the example. */
const NOT_RUN =
  /anthropic:|process\.argv|process\.env|mcp\.json|loadMcpPrompt|FileSessionInfoFactory/
const OPENS = /\.(?:callTool|startTool|resumeTask|listTools|listen|work)\(|loadMcp\w+\(/
const ENDS = /await using|\.(?:close|dispose)\(\)/
const TSC = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc')

interface Document {
  readonly path: string
  /** Folder of the package whose dependencies the examples use. */
  readonly owner: string
}

async function documents(): Promise<readonly Document[]> {
  const names = await readdir(join(ROOT, 'packages'))
  const own = await Promise.all(
    names.map(async (name) => {
      const folder = join('packages', name)
      const manifest = await readFile(join(ROOT, folder, 'package.json'), 'utf8')
      if (JSON.parse(manifest).private === true) return []
      const owner = OWNERS[name] ?? folder
      const files = await readdir(join(ROOT, folder))
      return files
        .filter((file) => file.endsWith('.md') && file !== 'CHANGELOG.md')
        .map((file) => ({ path: join(folder, file), owner }))
    }),
  )
  const owner = join('apps', 'playground') // depends on all packages
  const pages = (await readdir(join(ROOT, 'docs'), { recursive: true }))
    .filter((file) => file.endsWith('.md'))
    .map((file) => join('docs', file))
    .map((path) => ({ path, owner: OWNERS[path] ?? owner }))
  return [{ path: 'README.md', owner }, ...pages, ...own.flat()]
}

interface Example {
  /** Page and line. */
  readonly at: string
  readonly code: string
  /** True for the example of a doc comment, which is not run. */
  readonly isComment: boolean
}

/** Where each extracted example comes from, by the name of its file. */
const origins = new Map<string, Example>()

/** Sources of all packages, for the examples of their doc comments. */
async function sources(): Promise<readonly Document[]> {
  const found: Document[] = []
  for await (const path of glob('packages/*/src/**/*.ts', { cwd: ROOT })) {
    const [folder = '', name = ''] = path.split(sep)
    // Its examples are those of packages that export its functions.
    const owner = name === 'internal' ? join('apps', 'playground') : join(folder, name)
    if (!path.endsWith('.test.ts')) found.push({ path, owner })
  }
  return found
}

async function extract({ path, owner }: Document): Promise<void> {
  const content = await readFile(join(ROOT, path), 'utf8')
  const isComment = path.endsWith('.ts')
  const text = isComment ? content.replaceAll(/^ +\*(?: |$)/gm, '') : content
  for (const match of text.matchAll(/^```(?:ts|typescript)\n([\s\S]*?)^```/gm)) {
    if (isComment && !text.slice(0, match.index).endsWith('@example\n')) continue
    const line = text.slice(0, match.index).split('\n').length
    const file = join(owner, FOLDER, `${path.replaceAll(/[/.]/g, '-')}-${line}.ts`)
    await mkdir(join(ROOT, owner, FOLDER), { recursive: true })
    await writeFile(join(ROOT, file), `${match[1] ?? ''}export {}\n`)
    origins.set(file, { at: `${path}:${line}`, code: match[1] ?? '', isComment })
  }
}

async function check(): Promise<string> {
  const config = join(ROOT, 'node_modules', '.cache', 'readme-examples.json')
  await mkdir(join(config, '..'), { recursive: true })
  const settings = {
    extends: join(ROOT, 'tsconfig.types.json'),
    compilerOptions: { noUnusedLocals: false },
    files: Array.from(origins.keys(), (file) => join(ROOT, file)),
    include: [],
  }
  await writeFile(config, JSON.stringify(settings))
  try {
    await promisify(execFile)(process.execPath, [TSC, '-p', config], { cwd: ROOT })
    return ''
  } catch (error) {
    return error instanceof Error && 'stdout' in error ? String(error.stdout) : String(error)
  }
}

/** Runs an example in `cwd`. Returns what went wrong. */
async function run(file: string, cwd: string): Promise<string | undefined> {
  const command = ['--conditions=mcp-source', '--no-warnings', join(ROOT, file)]
  try {
    await promisify(execFile)(process.execPath, command, { cwd, timeout: 300_000 })
    return undefined
  } catch (error) {
    if (!(error instanceof Error)) return String(error)
    if ('killed' in error && error.killed === true) return 'The example does not end'
    return 'stderr' in error ? String(error.stderr) : error.message
  }
}

/** Runs the examples in the order of their pages, with real servers in place of those that they name. */
async function runAll(): Promise<readonly string[]> {
  await using shop = await startLegacyServer()
  await using hotel = await startModernServer()
  await using research = await startTaskServer()
  const servers = Object.entries({ shop, hotel, research })
  const cwd = await mkdtemp(join(tmpdir(), 'examples-'))
  const failures: string[] = []
  for (const [file, { at, code, isComment }] of origins) {
    if (isComment) continue
    if (OPENS.test(code) && !ENDS.test(code)) failures.push(`${at}: It does not say how it ends`)
    const named = servers.filter(([name]) => code.includes(urlOf(name)))
    if (named.length === 0 || NOT_RUN.test(code)) continue
    const runnable = named.reduce(
      (text, [name, { url }]) => text.replaceAll(urlOf(name), url),
      code,
    )
    await writeFile(join(ROOT, file), runnable)
    const failure = await run(file, cwd)
    console.log(`${failure === undefined ? 'ok   ' : 'WRONG'} ${at}`)
    if (failure !== undefined) failures.push(`${at}: ${failure}`)
  }
  await rm(cwd, { recursive: true })
  return failures
}

const urlOf = (name: string): string => `https://${name}.example/mcp`

const all = [...(await documents()), ...(await sources())]
try {
  for (const document of all) await extract(document)
  const problems = await check()
  for (const line of problems.split('\n').filter(Boolean)) {
    const [file = ''] = line.split('(')
    console.error(`${origins.get(file)?.at ?? file}${line.slice(file.length)}`)
  }
  console.log(`${origins.size} examples were checked`)
  const failures = problems === '' ? await runAll() : []
  for (const failure of failures) console.error(failure)
  process.exitCode = problems === '' && failures.length === 0 ? 0 : 1
} finally {
  const owners = new Set(all.map(({ owner }) => owner))
  for (const owner of owners) await rm(join(ROOT, owner, FOLDER), { recursive: true, force: true })
}
