import { defineConfig } from 'tsdown'
import manifest from './package.json' with { type: 'json' }

export default defineConfig({
  entry: {
    index: 'src/index.ts',
    'runtime-check': 'src/runtime-check.ts',
    skills: 'src/skills.ts',
  },
  define: { PACKAGE_VERSION: JSON.stringify(manifest.version) }, // read by readPackageVersion()
  fixedExtension: false,
  sourcemap: true, // with the text of the sources, which are not published
  dts: { sourcemap: false },
  exports: { devExports: 'mcp-source', exclude: ['runtime-check'] },
  publint: true,
  attw: { profile: 'esm-only' },
})
