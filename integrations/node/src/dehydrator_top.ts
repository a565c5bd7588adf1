#!/usr/bin/env node
import { become } from "./programs.js";

become("dehydrator-top");
