import { defineConfig } from 'tsdown'

export default defineConfig({
  entry: { index: 'src/index.ts', 'runtime-check': 'src/runtime-check.ts' },
  fixedExtension: false,
  dts: true,
  exports: { devExports: 'mcp-source', exclude: ['runtime-check'] },
  publint: true,
  attw: { profile: 'esm-only' },
})
