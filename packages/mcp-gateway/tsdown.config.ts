import { defineConfig } from 'tsdown'
import { withUndici } from '../../tsdown.undici.ts'
import manifest from './package.json' with { type: 'json' }

export default defineConfig({
  entry: {
    index: 'src/index.ts',
    'runtime-check': 'src/runtime-check.ts',
    adapter: 'src/adapter.ts',
    cli: 'src/cli/main.ts',
  },
  ...withUndici,
  define: {
    ...withUndici.define,
    PACKAGE_VERSION: JSON.stringify(manifest.version), // read by readPackageVersion()
  },
  fixedExtension: false,
  sourcemap: true, // with the text of the sources, which are not published
  dts: { sourcemap: false },
  exports: {
    devExports: 'mcp-source',
    exclude: ['cli', 'runtime-check'],
    bin: { 'mcp-gateway': './src/cli/main.ts' },
  },
  publint: true,
  attw: { profile: 'esm-only' },
})
