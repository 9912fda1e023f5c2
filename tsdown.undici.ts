// The build of a package that sends requests through undici copies the parts of undici that it uses. The whole is twice
// as large, and a bundle of ES modules with it stops at `Dynamic require of "node:assert" is not supported`.
import { readFileSync } from 'node:fs'

const PART = /[\\/]undici[\\/]lib[\\/]/
const REQUIRED_BUILTIN = /\brequire\(('node:[a-z/_0-9]+')\)/g
const license = readFileSync(
  new URL('packages/mcp-transport/node_modules/undici/LICENSE', import.meta.url),
  'utf8',
)

export const withUndici = {
  deps: { alwaysBundle: [/^undici\/lib\//], onlyBundle: ['undici'] },
  /** Node.js sets this for its own copy of undici. It leaves out Milo, a parser that undici does not use by default. */
  define: { esbuildDetection: 'true' },
  plugins: [
    {
      name: 'undici-without-require',
      transform: {
        filter: { id: PART },
        handler: (code: string) => ({
          code: code.replaceAll(REQUIRED_BUILTIN, 'process.getBuiltinModule($1)'),
          map: null, // no line has moved
        }),
      },
    },
  ],
  outputOptions: {
    postBanner: ({ moduleIds }: { readonly moduleIds: readonly string[] }) =>
      moduleIds.some((id) => PART.test(id)) ? `/*! Contains parts of undici.\n${license}*/` : '',
  },
}
