// Loads files of graphs as TypeScript projects write them: enums, JSX, imports without extensions or with `.js` for `.ts`,
// and `paths` of tsconfig.json. Only files that a graph imports are loaded in this way: other modules of the process load
// as before, and a file that both import is one module.
import { existsSync, readFileSync, statSync } from 'node:fs'
// By its default export: an old Node lacks some names, and would fail before it says which version is needed.
import nodeModule, { createRequire, isBuiltin } from 'node:module'
import type { LoadHookSync, ResolveHookSync } from 'node:module'
import { dirname, extname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { decodeText, isRecord } from '@x/internal'
import type * as Reader from 'get-tsconfig'
import type * as Compiler from 'oxc-transform'

/** URLs of the files that graphs consist of. They grow with each import. */
const ofGraphs = new Set<string>()
/** URLs of the files that a `langgraph.json` names. */
const entries = new Set<string>()
let isRegistered = false

/**
 * Imports the file of a graph.
 *
 * @param onWarning called for a `tsconfig.json` that cannot be read
 * @throws what the file throws; a SyntaxError with the lines around the mistake
 */
export async function importGraphFile(
  file: string,
  onWarning: (message: string, cause: unknown) => void,
): Promise<Readonly<Record<string, unknown>>> {
  const { href } = pathToFileURL(file)
  entries.add(href)
  warn = onWarning
  if (!isRegistered) nodeModule.registerHooks({ resolve, load })
  isRegistered = true
  const module: unknown = await import(href)
  return isRecord(module) ? module : {}
}

/** The latest listener. A module may be imported long after its graph was loaded. */
let warn: (message: string, cause: unknown) => void = () => undefined

// ---- resolving -----------------------------------------------------------------------------------------------------

const TYPESCRIPT = /\.[cm]?tsx?$/
const EXTENSIONS = ['.ts', '.tsx', '.mts', '.cts', '.js', '.jsx', '.mjs', '.cjs', '.json']
/** Extensions of the files that an import with this extension may mean: the compiled file, or its source. */
const SOURCES: Readonly<Record<string, readonly string[]>> = {
  '.js': ['.ts', '.tsx'],
  '.jsx': ['.tsx'],
  '.mjs': ['.mts'],
  '.cjs': ['.cts'],
}

const resolve: ResolveHookSync = (specifier, context, nextResolve) => {
  const { parentURL = '' } = context
  if (entries.has(specifier)) return remembered(nextResolve(specifier, context))
  if (!ofGraphs.has(parentURL)) return nextResolve(specifier, context)
  if (specifier.startsWith('@oxc-project/runtime/')) {
    return nextResolve(specifier, { ...context, parentURL: import.meta.url }) // a helper of the compiler
  }
  // `require()` knows no URLs.
  const isImport = context.conditions.includes('import')
  const resolved = (file: string): ReturnType<typeof nextResolve> =>
    remembered(nextResolve(isImport ? pathToFileURL(file).href : file, context))
  const file = localFileOf(specifier, parentURL)
  if (file !== undefined) return resolved(file)
  try {
    return remembered(nextResolve(specifier, context))
  } catch (error) {
    const source = sourceOfMissing(error)
    if (source === undefined) throw error
    return resolved(source)
  }
}

function remembered<Result extends { readonly url: string }>(result: Result): Result {
  const { url } = result
  const isOwn = url.startsWith('file:') && !url.includes('/node_modules/')
  if (isOwn || TYPESCRIPT.test(pathOf(url))) ofGraphs.add(url)
  return result
}

/** Returns the file of an import by its path, or by `paths` of tsconfig.json. `undefined`: Node decides. */
function localFileOf(specifier: string, parentURL: string): string | undefined {
  const isTypeScript = TYPESCRIPT.test(pathOf(parentURL))
  if (/^(?:\.{1,2}(?:\/|$)|\/|file:)/.test(specifier)) {
    const url = new URL(specifier, parentURL)
    return url.search === '' ? fileAt(fileURLToPath(url), isTypeScript) : undefined
  }
  if (isBuiltin(specifier) || parentURL.includes('/node_modules/')) return undefined
  const found = configOf(fileURLToPath(parentURL))?.candidatesOf(specifier) ?? []
  for (const candidate of found) {
    const file = fileAt(candidate, isTypeScript)
    if (file !== undefined) return file
  }
  return undefined
}

/** A package, such as one of the workspace, or `imports` of package.json, may name the compiled file of a source. */
function sourceOfMissing(error: unknown): string | undefined {
  if (!isRecord(error) || error['code'] !== 'ERR_MODULE_NOT_FOUND') return undefined
  const { url } = error
  if (typeof url !== 'string' || !url.startsWith('file:')) return undefined
  return fileAt(fileURLToPath(url), true)
}

function fileAt(path: string, isTypeScript: boolean): string | undefined {
  const extension = extname(path)
  const stem = path.slice(0, path.length - extension.length)
  const sources = (SOURCES[extension] ?? []).map((each) => stem + each)
  const named = isTypeScript ? [...sources, path] : [path, ...sources]
  const complete = EXTENSIONS.map((each) => path + each)
  const inside = EXTENSIONS.map((each) => join(path, `index${each}`))
  return [...named, ...complete, ...inside].find((file) => {
    return statSync(file, { throwIfNoEntry: false })?.isFile()
  })
}

function pathOf(url: string): string {
  return url.replace(/[?#].*$/, '')
}

// ---- loading -------------------------------------------------------------------------------------------------------

/** Returns a function that loads a library, with the first file that needs it. A bundle of CommonJS has no `import.meta.url`. */
function loader(): NodeJS.Require {
  const here: string | undefined = import.meta.url
  return createRequire(here ?? join(process.cwd(), 'bundle.js'))
}

const load: LoadHookSync = (url, context, nextLoad) => {
  if (!ofGraphs.has(url)) return nextLoad(url, context)
  const path = fileURLToPath(pathOf(url))
  const isImport = context.conditions.includes('import')
  if (path.endsWith('.json') && isImport && context.importAttributes['type'] === undefined) {
    const text = readFileSync(path, 'utf8')
    return { format: 'module', source: `export default ${text}`, shortCircuit: true }
  }
  if (!TYPESCRIPT.test(path) && !path.endsWith('.jsx')) return nextLoad(url, context)
  const code = compiled(path)
  const format = formatOf(path, code)
  const source = (format === 'module' ? commonNamesIn(path, code) : HOOKED_REQUIRE) + code
  return { format, source, shortCircuit: true }
}

function compiled(path: string): string {
  const { transformSync }: typeof Compiler = loader()('oxc-transform')
  const text = readFileSync(path, 'utf8')
  const { code, errors, map } = transformSync(path, text, configOf(path)?.options ?? DEFAULTS)
  const error = errors.find(({ severity }) => ['Error'].includes(severity))
  if (error !== undefined) {
    // The first lines of the frame repeat the message.
    const frame = (error.codeframe ?? '').split('\n').slice(2).join('\n').trimEnd()
    throw new SyntaxError(`${error.message}\n${frame}`.trimEnd())
  }
  const inline = Buffer.from(JSON.stringify(map)).toString('base64')
  return `${code}\n//# sourceMappingURL=data:application/json;base64,${inline}`
}

type Format = 'module' | 'commonjs'

/** As Node decides for JavaScript: by the extension, the package, and the syntax. */
function formatOf(path: string, code: string): Format {
  if (/\.mtsx?$/.test(path)) return 'module'
  if (!path.endsWith('.cts') && isInModulePackage(path)) return 'module'
  return /^(?:import|export)\b|\bimport\.meta\b/m.test(code) ? 'module' : 'commonjs'
}

function isInModulePackage(path: string): boolean {
  const file = nodeModule.findPackageJSON(pathToFileURL(path))
  if (file === undefined) return false
  const content: unknown = JSON.parse(decodeText(readFileSync(file)))
  return isRecord(content) && content['type'] === 'module'
}

/** In Node 22, `require` of a CommonJS file that a hook has loaded passes no hooks. */
const HOOKED_REQUIRE = "require = require('node:module').createRequire(__filename);"

const COMMON_NAMES = {
  require: "(await import('node:module')).createRequire(import.meta.url)",
  __dirname: 'import.meta.dirname',
  __filename: 'import.meta.filename',
}

/** A compiler to CommonJS would leave these names to a file of a package without `"type": "module"`. */
function commonNamesIn(path: string, code: string): string {
  if (isInModulePackage(path)) return ''
  return Object.entries(COMMON_NAMES)
    .filter(([name]) => {
      const isDeclared = new RegExp(`\\b(?:const|let|var|function|class)\\s+${name}\\b`).test(code)
      return !isDeclared && new RegExp(`(?<![.\\w$])${name}\\b`).test(code)
    })
    .map(([name, value]) => `const ${name} = ${value};`)
    .join('')
}

// ---- tsconfig.json -------------------------------------------------------------------------------------------------

interface ProjectConfig {
  readonly options: Compiler.TransformOptions
  /** Returns the paths that an import may stand for. */
  readonly candidatesOf: (specifier: string) => readonly string[]
}

/** Classes may have `using` and decorators, which this Node may not know. */
const DEFAULTS: Compiler.TransformOptions = {
  sourcemap: true,
  target: `node${process.versions.node}`,
  jsx: { runtime: 'automatic' },
}

/** By folder. A server does not see changes of these files: it is started again. */
const configs = new Map<string, ProjectConfig | undefined>()

function configOf(file: string): ProjectConfig | undefined {
  const folder = dirname(file)
  if (!configs.has(folder)) configs.set(folder, readConfig(folder))
  return configs.get(folder)
}

const unreadable = new Set<string>()

function readConfig(folder: string): ProjectConfig | undefined {
  if (!isInProject(folder)) return undefined
  const reader: typeof Reader = loader()('get-tsconfig')
  try {
    const found = reader.getTsconfig(folder)
    if (found === null) return undefined
    const candidatesOf = reader.createPathsMatcher(found) ?? (() => [])
    return { options: optionsOf(found), candidatesOf }
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    const message = `A tsconfig.json above ${folder} cannot be read, so it is ignored: ${why}`
    if (!unreadable.has(why)) warn(message, error)
    unreadable.add(why)
    return undefined
  }
}

/** Returns whether a tsconfig.json applies to a folder. A project without one needs no library to read it. */
function isInProject(folder: string): boolean {
  if (existsSync(join(folder, 'tsconfig.json'))) return true
  const parent = dirname(folder)
  return parent !== folder && isInProject(parent)
}

function optionsOf({ config }: Reader.TsConfigResult): Compiler.TransformOptions {
  const { compilerOptions = {} } = config
  const {
    emitDecoratorMetadata = false,
    experimentalDecorators = false,
    jsx,
    jsxFactory,
    jsxFragmentFactory,
    jsxImportSource,
    target = 'esnext',
    useDefineForClassFields = !/^es(?:3|5|6|20(?:1\d|2[01]))$/i.test(target),
    verbatimModuleSyntax = false,
  } = compilerOptions
  return {
    ...DEFAULTS,
    jsx: {
      runtime: jsx === 'react' ? 'classic' : 'automatic',
      ...(jsxFactory !== undefined && { pragma: jsxFactory }),
      ...(jsxFragmentFactory !== undefined && { pragmaFrag: jsxFragmentFactory }),
      ...(jsx !== 'react' && jsxImportSource !== undefined && { importSource: jsxImportSource }),
    },
    decorator: { legacy: experimentalDecorators, emitDecoratorMetadata },
    typescript: {
      onlyRemoveTypeImports: verbatimModuleSyntax,
      removeClassFieldsWithoutInitializer: !useDefineForClassFields,
    },
    assumptions: { setPublicClassFields: !useDefineForClassFields },
  }
}
