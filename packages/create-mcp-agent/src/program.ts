import { existsSync } from 'node:fs'
import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { createInterface } from 'node:readline/promises'
import {
  CommandError,
  createProgram,
  runningPackageManager,
  runProgram,
  toLine,
} from '@x/internal/command-line'
import type { CommandContext } from '@x/internal/command-line'
import { Option } from 'commander'
import { projectFiles, TEMPLATES } from './project.ts'
import type { Template, Versions } from './project.ts'

const DESCRIPTION = `Creates a project that works without a key, with a test:

  agent     a LangGraph agent with MCP tools, whose sessions survive a restart
  gateway   a LangGraph graph, offered as an MCP server
  both      the agent, offered as an MCP server

It asks for what is not given, if it runs in a terminal. It never writes into a folder that has files.`

/** Runs `create-mcp-agent` and resolves to its exit code. Never rejects: errors are lines on `stderr`. */
export function runCommand(context: CommandContext, versions: Versions): Promise<0 | 1 | 2> {
  const { stdout, stderr } = context
  const program = createProgram('create-mcp-agent', import.meta.url, (text) => stdout.write(text))
    .description(DESCRIPTION)
    .argument('[folder]', `folder to create (default: ${DEFAULTS.folder})`)
    .addOption(
      new Option('-t, --template <name>', `default: ${DEFAULTS.template}`).choices(TEMPLATES),
    )
    .option('-y, --yes', 'ask nothing, and take the defaults')
    .addHelpText('after', '\nExit code: 0 done, 1 failed, 2 wrong command line.')
    .action(async (folder: string | undefined, flags: { template?: Template; yes?: true }) => {
      const given = { folder, template: flags.template }
      const answers = flags.yes ? given : await asked(given, context)
      await createProject({ ...DEFAULTS, ...defined(answers) }, { context, versions })
    })
  return runProgram(program, context.args, (error) => {
    stderr.write(`create-mcp-agent: ${toLine(error)}\n`)
  })
}

interface Answers {
  readonly folder: string
  readonly template: Template
}

type Given = { readonly [Key in keyof Answers]: Answers[Key] | undefined }

const DEFAULTS: Answers = { folder: 'mcp-agent', template: 'agent' }

function defined({ folder, template }: Given): Partial<Answers> {
  return { ...(folder && { folder }), ...(template && { template }) }
}

/** Asks for the missing arguments. Returns `given` without a terminal, because no person could answer. */
async function asked(given: Given, { stdin, stdout }: CommandContext): Promise<Given> {
  const isTerminal = 'isTTY' in stdin && stdin.isTTY === true && stdout.isTTY === true
  if (!isTerminal || (given.folder !== undefined && given.template !== undefined)) return given
  const terminal = createInterface({ input: stdin, output: stdout })
  const ended = new AbortController() // the end of the input leaves a question open
  terminal.once('close', () => ended.abort())
  const ask = (text: string): Promise<string> => terminal.question(text, { signal: ended.signal })
  try {
    const folder = given.folder ?? (await ask(`Folder (${DEFAULTS.folder}): `)).trim()
    let { template } = given
    while (template === undefined) {
      const word = (await ask(`Template: ${TEMPLATES.join(', ')} (${DEFAULTS.template}): `)).trim()
      template = TEMPLATES.find((each) => each === (word === '' ? DEFAULTS.template : word))
    }
    return { folder, template }
  } catch (cause) {
    throw new CommandError('Nothing was created', { cause })
  } finally {
    terminal.close()
  }
}

interface Surroundings {
  readonly context: CommandContext
  readonly versions: Versions
}

/** @throws CommandError if the folder has files, or cannot be written */
async function createProject(
  { folder, template }: Answers,
  { context, versions }: Surroundings,
): Promise<void> {
  const target = resolve(folder)
  const files = await projectFiles({ template, name: packageName(target), versions })
  try {
    const present = existsSync(target) ? await readdir(target) : []
    const taken = present.filter((name) => name !== '.git')
    if (taken.length > 0) {
      throw new CommandError(`${target} has files, such as ${taken[0]}: name another folder`)
    }
    for (const [path, text] of files) {
      await makeFolder(dirname(join(target, path)))
      await writeFile(join(target, path), text, { flag: 'wx' })
    }
  } catch (cause) {
    if (cause instanceof CommandError) throw cause
    throw new CommandError(`${target} cannot be written: ${toLine(cause)}`, { cause })
  }
  const { install, name } = runningPackageManager(context.env)
  const steps = [
    ...(target === resolve() ? [] : [`cd ${/\s/.test(folder) ? JSON.stringify(folder) : folder}`]),
    install,
    `${name} run test`,
  ]
  context.stdout.write(
    `Created ${target} from the template "${template}".\nNext:\n${steps.map((step) => `  ${step}\n`).join('')}Then its README.md says how to start it.\n`,
  )
}

/** `mkdir()` with `recursive` never ends in a file system such as `/proc`. */
async function makeFolder(folder: string): Promise<void> {
  if (existsSync(folder)) return
  await makeFolder(dirname(folder))
  await mkdir(folder)
}

/** Returns a name that npm accepts. */
function packageName(folder: string): string {
  const name = basename(folder)
    .toLowerCase()
    .replaceAll(/[^a-z0-9-]+/g, '-')
    .replaceAll(/^-+|-+$/g, '')
  return name === '' ? DEFAULTS.folder : name
}
