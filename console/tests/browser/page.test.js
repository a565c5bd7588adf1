// The page in a real browser, with real servers: what operators do, and what must hold for every view.

import { after, before } from "node:test";
import { scene } from "./scene.js";
import "./looking.js";
import "./acting.js";
import "./entering.js";
import "./views.js";

before(() => scene.open());
after(() => scene.close());
