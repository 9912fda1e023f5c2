import { defineConfig } from 'tsdown'
import { withUndici } from '../../tsdown.undici.ts'

export default defineConfig({
  entry: {
    index: 'src/index.ts',
    'runtime-check': 'src/runtime-check.ts',
    auth: 'src/auth/index.ts',
  },
  ...withUndici,
  fixedExtension: false,
  sourcemap: true, // with the text of the sources, which are not published
  dts: { sourcemap: false },
  exports: { devExports: 'mcp-source', exclude: ['runtime-check'] },
  publint: true,
  attw: { profile: 'esm-only' },
})
