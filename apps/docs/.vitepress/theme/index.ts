/// <reference types="vitepress/client" />
// Without the fonts of the theme: the fonts of the system serve.
import Theme from 'vitepress/theme-without-fonts'
import './style.css'

export default Theme
